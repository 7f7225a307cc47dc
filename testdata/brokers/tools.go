//go:build tools

// Package brokers pins the real brokers that contend's tests record. It is a
// module of its own, so that contend itself depends on none of them.
package brokers

import _ "github.com/nats-io/nats-server/v2"

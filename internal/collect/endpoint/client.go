package endpoint

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
)

// PasswordEnv names the variable with the password of a user whom the URL names
// without one: a command line is for every user of the machine to read.
const PasswordEnv = "CONTEND_PPROF_PASSWORD"

// ErrTLS says that the server did not prove who it is, or speaks no TLS.
var ErrTLS = errors.New("no TLS connection")

// address is where an endpoint is.
type address struct {
	url    *url.URL
	socket string // path of a unix socket, "" over TCP
}

// parseAddress accepts http://host:port/debug/pprof, with or without a trailing
// slash, and a bare http://host:port, to which the customary path is added; https
// likewise; and unix:///path/of/socket, with another path than that after a colon.
func parseAddress(s string) (*address, error) {
	u, err := url.Parse(s)
	if err != nil {
		return nil, errAddress
	}
	a := &address{url: u}
	switch {
	case u.Scheme == "unix" && u.Host == "" && u.Path != "":
		socket, path, _ := strings.Cut(u.Path, ":")
		a.socket = socket
		a.url = &url.URL{Scheme: "http", Host: "localhost", Path: path, User: u.User}
	case u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, errAddress
	}
	a.url.Path = strings.TrimRight(a.url.Path, "/")
	if a.url.Path == "" {
		a.url.Path = "/debug/pprof"
	}
	a.url.RawQuery, a.url.Fragment = "", ""
	if user := a.url.User; user != nil {
		if _, has := user.Password(); !has && os.Getenv(PasswordEnv) != "" {
			a.url.User = url.UserPassword(user.Username(), os.Getenv(PasswordEnv))
		}
	}
	return a, nil
}

var errAddress = errors.New("endpoint: want a URL like http://host:port/debug/pprof, https://…, or unix:///path/of/socket")

// shown is a URL of the endpoint as messages and manifests have it: without the
// password.
func (a *address) shown(u *url.URL) string {
	if a.socket == "" {
		return u.Redacted()
	}
	return "unix://" + a.socket + ":" + u.Path
}

// client makes an HTTP client for the address. caFile names certificates to trust
// beside the system's, in PEM; "" none.
func (a *address) client(caFile string) (*http.Client, error) {
	t := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DisableCompression:    true, // profiles are gzip files already; a second layer would hide their size
		ResponseHeaderTimeout: 0,    // bounded by each request's context
	}
	if a.socket != "" {
		t.Proxy = nil
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", a.socket)
		}
	}
	if caFile != "" {
		pool, err := trusted(caFile)
		if err != nil {
			return nil, err
		}
		t.TLSClientConfig = &tls.Config{RootCAs: pool}
	}
	return &http.Client{Transport: t}, nil
}

func trusted(file string) (*x509.CertPool, error) {
	pool, err := x509.SystemCertPool()
	if err != nil { // a system without any
		pool = x509.NewCertPool()
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("endpoint: certificates to trust: %w", err)
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("endpoint: certificates to trust: %s has none in PEM", file)
	}
	return pool, nil
}

// tlsError names the cause of a failed handshake, "" if err is something else.
func tlsError(err error) string {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &unknown):
		return "its certificate is of no authority that is trusted here: name the authority's with --pprof-ca"
	case errors.As(err, &name):
		return fmt.Sprintf("its certificate is not for %s: name the host as the certificate does", name.Host)
	case errors.As(err, &invalid):
		return "its certificate is not valid: " + firstLine([]byte(err.Error()))
	case errors.As(err, &record), strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return "it answers without TLS: use http://"
	}
	return ""
}

// Command mochi is a mochi-mqtt broker on loopback that lets everybody in.
package main

import (
	"flag"
	"io"
	"log"
	"log/slog"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/hooks/auth"
	"github.com/mochi-mqtt/server/v2/listeners"

	"brokers/profiled"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:1883", "address of MQTT over TCP")
	flag.Parse()
	server := mqtt.New(&mqtt.Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err := server.AddHook(new(auth.AllowHook), nil); err != nil {
		log.Fatal(err)
	}
	if err := server.AddListener(listeners.NewTCP(listeners.Config{ID: "tcp", Address: *listen})); err != nil {
		log.Fatal(err)
	}
	if err := server.Serve(); err != nil {
		log.Fatal(err)
	}
	profiled.Run()
	if err := server.Close(); err != nil {
		log.Fatal(err)
	}
}

// Command mqttload drives an MQTT broker over loopback: publishers with
// confirmed messages, and subscribers to all of them.
package main

import (
	"flag"
	"fmt"
	"log"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"

	"brokers/load"
)

const patience = 10 * time.Second

func main() {
	url := flag.String("url", "tcp://127.0.0.1:1883", "broker")
	publishers := flag.Int("publishers", 16, "publishing connections")
	subscribers := flag.Int("subscribers", 8, "subscribing connections, all on every topic")
	qos := flag.Int("qos", 1, "0 or 1: whether messages are confirmed")
	flag.Parse()
	for i := range *subscribers {
		c, err := connect(*url, fmt.Sprintf("sub-%d", i))
		if err == nil {
			err = await(c.Subscribe("load/#", 0, func(paho.Client, paho.Message) {}))
		}
		if err != nil {
			log.Fatal(err)
		}
	}
	payload := make([]byte, 128)
	load.Run(*publishers, func(i int) (func() error, error) {
		c, err := connect(*url, fmt.Sprintf("pub-%d", i))
		topic := fmt.Sprintf("load/%d", i)
		return func() error { return await(c.Publish(topic, byte(*qos), false, payload)) }, err
	})
}

func connect(url, id string) (paho.Client, error) {
	c := paho.NewClient(paho.NewClientOptions().AddBroker(url).SetClientID(id).SetConnectTimeout(patience))
	return c, await(c.Connect())
}

func await(t paho.Token) error {
	if !t.WaitTimeout(patience) {
		return fmt.Errorf("no answer within %s", patience)
	}
	return t.Error()
}

package orders

import (
	"context"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

func startCluster(t *testing.T) []string {
	command := exec.Command("kraft", "cluster", "start", "--ephemeral", "--json", "-n", "1")
	input, _ := command.StdinPipe()
	output, _ := command.StdoutPipe()
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { input.Close(); command.Wait() })
	var where struct{ Bootstrap string }
	if err := json.NewDecoder(output).Decode(&where); err != nil {
		t.Fatal(err)
	}
	return strings.Split(where.Bootstrap, ",")
}

func TestAnOrderComesBack(t *testing.T) {
	client, err := kgo.NewClient(kgo.SeedBrokers(startCluster(t)...), kgo.AllowAutoTopicCreation(), kgo.ConsumeTopics("orders"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx := context.Background()
	if err := client.ProduceSync(ctx, &kgo.Record{Topic: "orders", Value: []byte("one coffee")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if got := string(client.PollFetches(ctx).Records()[0].Value); got != "one coffee" {
		t.Fatal(got)
	}
}

package fakeserver_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	fs "github.com/neverhang/neverhang/internal/fakeserver"
)

// A server that is throttled first, then breaks off, then answers.
func ExampleSequence() {
	srv := fs.New(fs.Config{Script: fs.Sequence(
		fs.Reply(fs.RetryAfter(time.Second), fs.Throttled()),
		fs.Reply(fs.Text("half an ans"), fs.Reset()),
		fs.Answer("a whole answer"),
	)})
	defer srv.Close()
	client := &http.Client{Transport: srv.Transport()}
	for range 3 {
		resp, err := client.Post(srv.BaseURL()+"/chat/completions", "application/json",
			strings.NewReader(`{"model":"any","messages":[{"role":"user","content":"Hello"}]}`))
		if err != nil {
			fmt.Println("broken off:", strings.HasSuffix(err.Error(), "connection reset by peer"))
			continue
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		fmt.Println(resp.Status, resp.Header.Get("Retry-After"), strings.Contains(string(body), "a whole answer"))
	}
	for _, r := range srv.Requests() {
		fmt.Println(r.Ordinal, r.Reply)
	}
	// Output:
	// 429 Too Many Requests 1 false
	// broken off: true
	// 200 OK  true
	// 1 header(Retry-After: 1) error(429 rate_limit_error)
	// 2 text("half an ans") reset
	// 3 answer("a whole answer")
}

func ExampleParseFaults() {
	faults, err := fs.ParseFaults("hang=0.1,429=0.2,outage=5s@3s")
	fmt.Println(faults, err)
	var drawn []string
	for n := 1; n <= 4; n++ {
		drawn = append(drawn, faults.Draw(1, "an agent", n))
	}
	fmt.Printf("%q\n", drawn)
	_, err = fs.ParseFaults("hang=10%")
	fmt.Println(err)
	// Output:
	// hang=0.1,429=0.2,outage=5s@3s <nil>
	// ["429" "" "429" "hang"]
	// fakeserver: faults: "hang" has the rate "10%", want a number from 0 to 1
}

package llmclient_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/neverhang/neverhang/chat"
)

// answerServer answers every request with a stream or a value of some 2 KB.
func answerServer(b *testing.B) *httptest.Server {
	text := strings.Repeat("The quick brown fox jumps over the lazy dog. ", 40)
	plain := fmt.Sprintf(`{"id":"1","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":400,"total_tokens":409}}`, text)
	stream := fmt.Sprintf("data: {\"id\":\"1\",\"object\":\"chat.completion.chunk\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":%q},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n", text)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		if r.Header.Get("X-Plain") == "" && n > 0 {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, stream)
			return
		}
		_, _ = io.WriteString(w, plain)
	}))
	b.Cleanup(srv.Close)
	return srv
}

type wireMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type wireRequest struct {
	Model    string        `json:"model"`
	Messages []wireMessage `json:"messages"`
}

type wireResponse struct {
	Choices []struct {
		Message      wireMessage `json:"message"`
		FinishReason string      `json:"finish_reason"`
	} `json:"choices"`
}

// plainCall is what people write by hand.
func plainCall(b *testing.B, hc *http.Client, url string, req *wireRequest) {
	body, err := json.Marshal(req)
	if err != nil {
		b.Fatal(err)
	}
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, url+"/chat/completions", bytes.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer key")
	r.Header.Set("X-Plain", "1")
	resp, err := hc.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	var out wireResponse
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil || out.Choices[0].FinishReason != "stop" {
		b.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
}

func conversation(n, size int) ([]wireMessage, []chat.Message) {
	plain, ours := make([]wireMessage, n), make([]chat.Message, n)
	for i := range n {
		text := strings.Repeat(fmt.Sprintf("line %d of the \"file\" <main.go>\n\tif a && b {\n", i), size/40)[:size]
		plain[i] = wireMessage{"user", text}
		ours[i] = chat.User(text)
	}
	return plain, ours
}

package engine

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"sync"
)

// wirePrompt is as much of a request as the engine reads.
type wirePrompt struct {
	Model               string            `json:"model"`
	Messages            []json.RawMessage `json:"messages"`
	Tools               json.RawMessage   `json:"tools"`
	MaxTokens           int               `json:"max_tokens"`
	MaxCompletionTokens int               `json:"max_completion_tokens"`
	Seed                int64             `json:"seed"`
	User                string            `json:"user"`
	Stream              bool              `json:"stream"`
	StreamOptions       struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Metadata map[string]string `json:"metadata"`
}

const maxBody = 64 << 20

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// completion serves a completion request.
func (s *Server) completion(w http.ResponseWriter, r *http.Request) {
	var in wirePrompt
	req, text, bad := s.read(r.Body, &in)
	if bad != "" {
		sendError(w, http.StatusBadRequest, "invalid_request_error", "", bad)
		return
	}
	reply := &reply{
		w: w, ctl: http.NewResponseController(w), cfg: &s.cfg, text: text, usage: in.StreamOptions.IncludeUsage,
		model: in.Model, key: req.Key, now: s.start.Add(s.now()),
	}
	st := newStream()
	s.submit(req, st)
	ctx := r.Context()
	for {
		h, here := s.wait(ctx, st)
		if !here {
			panic(http.ErrAbortHandler)
		}
		switch {
		case h.end != "" && !h.end.Useful():
			reply.fail(h.end, st.call, in.Stream)
			return
		case !in.Stream && h.end == "":
		case !in.Stream:
			reply.whole(st.call, h.end)
			return
		default:
			reply.more(st.call, h, s.cfg.EarlyHeaders)
			if h.end != "" {
				return
			}
		}
	}
}

// read reads a request and decides on what is answered. bad says what is
// wrong with it.
func (s *Server) read(from io.Reader, in *wirePrompt) (req Request, text answer, bad string) {
	buf := buffers.Get().(*bytes.Buffer)
	defer buffers.Put(buf)
	buf.Reset()
	if _, err := buf.ReadFrom(io.LimitReader(from, maxBody+1)); err != nil || buf.Len() > maxBody {
		panic(http.ErrAbortHandler) // it went away while it was asking
	}
	if err := json.Unmarshal(buf.Bytes(), in); err != nil {
		return Request{}, nil, "body: " + err.Error()
	}
	if len(in.Messages) == 0 {
		return Request{}, nil, "messages: want at least one"
	}
	req = in.request()
	if s.cfg.Answer == nil {
		return req, &words{seed: mix(req.Key ^ s.cfg.Engine.Seed)}, ""
	}
	a := newGiven(s.cfg.Answer(buf.Bytes()))
	req.Output, req.MaxTokens = max(len(a.pieces), 1), 0
	return req, a, ""
}

// request turns what came in into a demand on the engine. A prompt has a
// token for every four bytes of JSON.
func (in *wirePrompt) request() Request {
	req := Request{Agent: in.User, Stream: in.Stream, MaxTokens: in.MaxCompletionTokens}
	if req.MaxTokens <= 0 {
		req.MaxTokens = max(in.MaxTokens, 0)
	}
	key := hashText(in.Model)
	add := func(raw json.RawMessage) {
		key = mix(key ^ hashText([]byte(raw)))
		req.Prompt = append(req.Prompt, Segment{Key: key, Tokens: 1 + len(raw)/4})
	}
	if len(in.Tools) > 0 {
		add(in.Tools)
	}
	for _, m := range in.Messages {
		add(m)
	}
	if req.Agent == "" {
		req.Agent = strconv.FormatUint(hashText([]byte(in.Messages[0])), 16)
	}
	if n, err := strconv.Atoi(in.Metadata[HintOutput]); err == nil && n > 0 {
		req.Output = n
	}
	if n, err := strconv.Atoi(in.Metadata[HintPrompt]); err == nil && n > 0 {
		// The hint stands for content that is not there: the first piece is
		// made longer or all are replaced.
		have := 0
		for _, seg := range req.Prompt {
			have += seg.Tokens
		}
		if n >= have {
			req.Prompt[0].Tokens += n - have
			for i := range req.Prompt {
				req.Prompt[i].Key = mix(req.Prompt[i].Key ^ uint64(n-have))
			}
		} else {
			req.Prompt = []Segment{{Key: key, Tokens: n}}
		}
	}
	req.Key = mix(key ^ uint64(in.Seed))
	return req
}

// Hints are keys of a request's metadata that fix what the engine would find
// out for itself: the tokens of the answer, and of the prompt. The field seed
// changes what is drawn, and user names the agent.
const (
	HintOutput = "output_tokens"
	HintPrompt = "prompt_tokens"
)

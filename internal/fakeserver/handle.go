package fakeserver

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
)

func isCompletion(method, path string) bool {
	return method == http.MethodPost && strings.HasSuffix(path, "/chat/completions")
}

// maxReplyName bounds what a record keeps of a reply's steps, in characters.
const maxReplyName = 200

// handle serves one HTTP request.
func (s *Server) handle(w http.ResponseWriter, hr *http.Request) {
	if s.cfg.Handler != nil {
		s.cfg.Handler.ServeHTTP(w, hr)
		return
	}
	c, _ := hr.Context().Value(connKey{}).(*conn)
	if c == nil {
		return // cannot be: every connection comes through admit
	}
	body, err := io.ReadAll(io.LimitReader(hr.Body, maxBody+1))
	if err != nil || len(body) > maxBody {
		panic(http.ErrAbortHandler) // it went away while it was asking
	}
	in := Request{
		Conn: c.id, Method: hr.Method, Path: hr.URL.Path, Proto: hr.Proto,
		Header: hr.Header, Body: body,
	}
	var conversation uint64
	if isCompletion(in.Method, in.Path) {
		conversation = in.decode()
	}
	rec := s.arrived(in, conversation)
	req := s.snapshot(rec)

	// The moment the client leaves is booked when it happens, not when the
	// reply's steps notice.
	stop := context.AfterFunc(hr.Context(), func() {
		if s.ctx.Err() == nil {
			s.gone(rec)
		}
	})
	t := newTurn(hr.Context(), s, req, c, w)
	whole := false
	defer func() {
		stop()
		status := 0
		if t.begun {
			status = t.code
		}
		s.over(rec, status, whole, conversation)
	}()

	err = s.play(t, rec)
	if err == nil {
		err = t.finish()
	}
	c.small(0, nil)
	switch {
	case err == nil || errors.Is(err, errOver):
		whole = true
	case errors.Is(err, errGone) && s.ctx.Err() == nil:
		s.gone(rec)
		panic(http.ErrAbortHandler)
	default:
		panic(http.ErrAbortHandler)
	}
}

func (s *Server) snapshot(r *Request) *Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := *r
	return &out
}

// play waits for a slot, decides on the reply and plays it.
func (s *Server) play(t *turn, rec *Request) error {
	completion := isCompletion(t.req.Method, t.req.Path)
	free, err := s.slot(t, completion)
	if err != nil {
		return err
	}
	defer free()
	reply := s.decide(t, rec, completion)
	s.mu.Lock()
	rec.Reply = clip(reply.String(), maxReplyName)
	s.mu.Unlock()
	return reply.play(t)
}

// slot takes one of the server's slots; free gives it back.
func (s *Server) slot(t *turn, completion bool) (free func(), err error) {
	if s.slots == nil {
		return func() {}, nil
	}
	free = func() { <-s.slots }
	select {
	case s.slots <- struct{}{}:
		return free, nil
	default:
	}
	if completion && s.cfg.Full.run != nil {
		if err := s.cfg.Full.play(t); err != nil {
			return nil, err
		}
		if err := t.finish(); err != nil {
			return nil, err
		}
		return nil, errOver
	}
	select {
	case s.slots <- struct{}{}:
		return free, nil
	case <-t.ctx.Done():
		return nil, errGone
	}
}

// decide finds the reply to a request.
func (s *Server) decide(t *turn, rec *Request, completion bool) Step {
	req := t.req
	switch {
	case completion:
	case req.Method == http.MethodGet && strings.HasSuffix(req.Path, "/models"):
		return s.cfg.Models(req)
	case req.Method == http.MethodGet && req.Path == "/health":
		return Status(http.StatusOK, "")
	default:
		return Error(http.StatusNotFound, "invalid_request_error", "", "Invalid URL ("+req.Method+" "+req.Path+")")
	}
	if s.cfg.Faults.down(req.Since) {
		s.dealt(rec, "outage", false)
		return Reply(Header("Connection", "close"), Unavailable())
	}
	reply := s.cfg.Script(req)
	kind, luck := s.cfg.Faults.draw(s.cfg.Seed, req.Agent, req.Turn)
	if kind == nil {
		return reply
	}
	s.dealt(rec, kind.name, kind.slow)
	return kind.play(reply, luck)
}

package main

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/neverhang/neverhang/agentloop"
	"github.com/neverhang/neverhang/chat"
	"github.com/neverhang/neverhang/llmclient"
)

// A model is the client as the agents see it. It decides what two kinds of
// failure mean to them.
type model struct {
	client   agentloop.Model
	answered atomic.Bool // some call has succeeded
}

// Chat asks the model.
func (m *model) Chat(ctx context.Context, req *chat.Request) (*chat.Response, error) {
	resp, err := m.client.Chat(ctx, req)
	if err == nil {
		m.answered.Store(true)
		return resp, nil
	}
	e, ok := errors.AsType[*llmclient.Error](err)
	switch {
	case !ok:
		return nil, err
	case e.Kind == llmclient.ErrTooLarge:
		return nil, &askAgain{err}
	case m.concernsAll(e):
		agentloop.CancelGroup(ctx, err)
	}
	return nil, err
}

// concernsAll reports whether every other call would fail in the same way. Then one
// agent ends the run for all, instead of 45 that report the same error.
func (m *model) concernsAll(e *llmclient.Error) bool {
	switch e.Kind {
	case llmclient.ErrAuth, llmclient.ErrQuota, llmclient.ErrNotFound:
		return true
	case llmclient.ErrRequest:
		return !m.answered.Load() // all first requests are alike
	}
	return false
}

// An askAgain is the failure of an answer without end. A model seldom fails so twice
// at the same place, so the agent may ask a few times more.
type askAgain struct{ error }

func (e *askAgain) Unwrap() error { return e.error }

// Retryable tells the agent loop that the fault may pass.
func (e *askAgain) Retryable() bool { return true }

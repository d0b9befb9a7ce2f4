package agentloop

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"github.com/neverhang/neverhang/chat"
)

// New copies what it is given, since the caller may go on writing to it.

func cloneRequest(r chat.Request) chat.Request {
	r.ParallelToolCalls = clonePointer(r.ParallelToolCalls)
	r.Temperature = clonePointer(r.Temperature)
	r.TopP = clonePointer(r.TopP)
	r.Seed = clonePointer(r.Seed)
	r.Stop = slices.Clone(r.Stop)
	r.ResponseFormat = bytes.Clone(r.ResponseFormat)
	r.Extra = cloneExtra(r.Extra)
	return r
}

func cloneMessages(msgs []chat.Message) []chat.Message {
	msgs = slices.Clone(msgs)
	for i := range msgs {
		m := &msgs[i]
		m.Extra = cloneExtra(m.Extra)
		m.Parts = slices.Clone(m.Parts)
		for k := range m.Parts {
			m.Parts[k].Extra = cloneExtra(m.Parts[k].Extra)
		}
		m.ToolCalls = slices.Clone(m.ToolCalls)
		for k := range m.ToolCalls {
			m.ToolCalls[k].Extra = cloneExtra(m.ToolCalls[k].Extra)
		}
	}
	return msgs
}

func cloneExtra(m map[string]json.RawMessage) map[string]json.RawMessage {
	m = maps.Clone(m)
	for k, v := range m {
		m[k] = bytes.Clone(v)
	}
	return m
}

func clonePointer[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

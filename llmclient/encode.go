package llmclient

import (
	"bytes"
	"container/list"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"

	"github.com/neverhang/neverhang/chat"
)

const (
	// Messages below leastKept bytes are encoded as quickly as they are looked
	// up.
	leastKept = 256

	// frameBytes is room for what stands around the messages, when there is no
	// more to it than the model's name.
	frameBytes = 160

	// encodedBytes bounds what an endpoint's encoded messages take.
	encodedBytes = 64 << 20
)

// A payload is a request's body in pieces. They are never changed, so that calls can
// share those of a conversation's old messages.
type payload struct {
	parts [][]byte
	size  int
}

func (p *payload) add(b []byte) {
	if len(b) > 0 {
		p.parts = append(p.parts, b)
		p.size += len(b)
	}
}

// joined returns it in one piece.
func (p *payload) joined() []byte {
	if len(p.parts) == 1 {
		return p.parts[0]
	}
	return bytes.Join(p.parts, nil)
}

// encoded caches the JSON of messages that have been sent, by their content: every
// round of a conversation sends all earlier messages again. The least recently used
// ones are dropped first. It is safe for concurrent use.
type encoded struct {
	seed maphash.Seed

	mu     sync.Mutex
	byHash map[uint64]*list.Element // of *encodedMessage
	used   *list.List               // the last used first
	size   int

	// Messages that have been sent once, by their hash: only those sent again
	// are kept. Most calls outside of conversations are never repeated.
	once [onceSlots]uint64
}

// onceSlots is how many of those are remembered; later ones replace earlier ones.
const onceSlots = 4096

type encodedMessage struct {
	hash uint64
	msg  chat.Message
	form chat.Form
	json []byte
}

func newEncoded() *encoded {
	return &encoded{seed: maphash.MakeSeed(), byHash: make(map[uint64]*list.Element), used: list.New()}
}

// payload encodes a request for a model, with its messages in a form.
func (e *encoded) payload(req *chat.Request, form chat.Form, model string, stream, includeUsage bool) (payload, error) {
	kept, err := e.messages(req.Messages, &form)
	if err != nil {
		return payload{}, fmt.Errorf("chat: request: %w", err)
	}
	// What stands around the messages, with the places of those that are kept.
	i, places, room := 0, make([]int, 0, len(kept)), frameBytes
	for k := range kept {
		if kept[k] == nil {
			room += len(req.Messages[k].Content) + len(req.Messages[k].Content)/16
		}
	}
	frame, err := req.AppendJSONFunc(make([]byte, 0, room), model, stream, includeUsage, func(dst []byte, m *chat.Message) ([]byte, error) {
		json := kept[i]
		if i++; json == nil {
			places = append(places, -1)
			return form.AppendMessage(dst, m)
		}
		places = append(places, len(dst))
		return dst, nil
	})
	if err != nil {
		return payload{}, err
	}
	p := payload{parts: make([][]byte, 0, 2*len(kept)+1)}
	from := 0
	for i, at := range places {
		if at >= 0 {
			p.add(frame[from:at])
			p.add(kept[i])
			from = at
		}
	}
	p.add(frame[from:])
	return p, nil
}

// messages returns the JSON of each message that is kept; of others, nil.
func (e *encoded) messages(list []chat.Message, form *chat.Form) (kept [][]byte, err error) {
	kept = make([][]byte, len(list))
	for i := range list {
		if m := &list[i]; keepable(m) {
			if kept[i], err = e.message(m, form); err != nil {
				if inner := errors.Unwrap(err); inner != nil {
					err = inner
				}
				return nil, fmt.Errorf("messages[%d].%w", i, err)
			}
		}
	}
	return kept, nil
}

// keepable reports whether a message is worth caching and safe to cache. Raw JSON is
// not: its owner may write to it.
func keepable(m *chat.Message) bool {
	if len(m.Parts) > 0 || len(m.Extra) > 0 {
		return false
	}
	size := len(m.Content)
	for i := range m.ToolCalls {
		if len(m.ToolCalls[i].Extra) > 0 {
			return false
		}
		size += len(m.ToolCalls[i].Arguments)
	}
	return size >= leastKept
}

// message returns the JSON of a message that has been sent before, and keeps it;
// of others, nil.
func (e *encoded) message(m *chat.Message, form *chat.Form) ([]byte, error) {
	h := e.hash(m)
	if form.Tools {
		h++ // a message that is sent with and without tools is kept twice
	}
	e.mu.Lock()
	if el := e.byHash[h]; el != nil {
		if kept := el.Value.(*encodedMessage); same(&kept.msg, m) && sameForm(&kept.form, form) {
			e.used.MoveToFront(el)
			e.mu.Unlock()
			return kept.json, nil
		}
	}
	again := e.once[h%onceSlots] == h
	e.once[h%onceSlots] = h
	e.mu.Unlock()
	if !again {
		return nil, nil
	}
	json, err := form.AppendMessage(make([]byte, 0, len(m.Content)+len(m.Content)/16+128), m)
	if err != nil {
		return nil, err
	}
	kept := &encodedMessage{hash: h, msg: *m, form: *form, json: json}
	kept.msg.ToolCalls = slices.Clone(m.ToolCalls)
	e.mu.Lock()
	defer e.mu.Unlock()
	if el := e.byHash[h]; el != nil {
		e.dropLocked(el)
	}
	e.byHash[h] = e.used.PushFront(kept)
	e.size += kept.weight()
	for e.size > encodedBytes && e.used.Len() > 1 {
		e.dropLocked(e.used.Back())
	}
	return json, nil
}

func (e *encoded) dropLocked(el *list.Element) {
	kept := e.used.Remove(el).(*encodedMessage)
	delete(e.byHash, kept.hash)
	e.size -= kept.weight()
}

// weight is what an entry takes at most, the message's own text included.
func (k *encodedMessage) weight() int { return 2*cap(k.json) + 512 }

// hash returns a hash of a message. It is not inlined: the state of a hash is large,
// and would enlarge the stacks of thousands of waiting calls.
//
//go:noinline
func (e *encoded) hash(m *chat.Message) uint64 {
	var h maphash.Hash
	h.SetSeed(e.seed)
	hashMessage(&h, m)
	return h.Sum64()
}

// hashMessage adds a message to h.
func hashMessage(h *maphash.Hash, m *chat.Message) {
	write := func(s string) {
		_, _ = h.WriteString(s)
		_ = h.WriteByte(0)
	}
	write(string(m.Role))
	write(m.Content)
	write(m.ToolCallID)
	for i := range m.ToolCalls {
		write(m.ToolCalls[i].ID)
		write(m.ToolCalls[i].Arguments)
	}
}

func sameForm(a, b *chat.Form) bool {
	return a.Tools == b.Tools && a.Bare == b.Bare && a.ShortIDs == b.ShortIDs && a.ReasoningKey == b.ReasoningKey && slices.Equal(a.Omit, b.Omit)
}

// same reports whether two messages are equal. Comparing strings that share memory,
// as those of an unchanged conversation do, costs nothing.
func same(a, b *chat.Message) bool {
	return a.Role == b.Role && a.Content == b.Content && a.Reasoning == b.Reasoning && a.ReasoningKey == b.ReasoningKey &&
		a.Refusal == b.Refusal && a.ToolCallID == b.ToolCallID && a.Name == b.Name &&
		slices.EqualFunc(a.ToolCalls, b.ToolCalls, func(x, y chat.ToolCall) bool {
			return x.ID == y.ID && x.Type == y.Type && x.Name == y.Name && x.Arguments == y.Arguments
		})
}

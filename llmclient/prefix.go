package llmclient

import (
	"container/list"
	"hash/maphash"
	"sync"

	"github.com/neverhang/neverhang/chat"
)

// maxPrefixes bounds the conversations that are remembered.
const maxPrefixes = 16 << 10

// prefixes remembers which endpoint answered which conversation last: the next round
// begins with the same messages, which that endpoint has in its prefix cache. A
// conversation is recognised by its content, so that callers need not name it. One
// that branches off or was edited is found by the part that is unchanged. It is safe
// for concurrent use.
type prefixes struct {
	seed maphash.Seed

	mu     sync.Mutex
	byHash map[uint64]*list.Element // of *prefix
	used   *list.List               // the last used first
}

type prefix struct {
	hash uint64
	ep   *endpoint
}

func newPrefixes() *prefixes {
	return &prefixes{seed: maphash.MakeSeed(), byHash: make(map[uint64]*list.Element), used: list.New()}
}

// find returns the endpoint that has answered the longest beginning of a
// request's conversation, or nil.
func (p *prefixes) find(req *chat.Request) *endpoint {
	hashes := p.hashes(req.Messages)
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(hashes) - 1; i >= 0; i-- {
		if el := p.byHash[hashes[i]]; el != nil {
			p.used.MoveToFront(el)
			return el.Value.(*prefix).ep
		}
	}
	return nil
}

// add notes that an endpoint has answered a request.
func (p *prefixes) add(req *chat.Request, ep *endpoint) {
	if req == nil || len(req.Messages) == 0 {
		return
	}
	hashes := p.hashes(req.Messages)
	h := hashes[len(hashes)-1]
	p.mu.Lock()
	defer p.mu.Unlock()
	if el := p.byHash[h]; el != nil {
		el.Value.(*prefix).ep = ep
		p.used.MoveToFront(el)
		return
	}
	p.byHash[h] = p.used.PushFront(&prefix{h, ep})
	if p.used.Len() > maxPrefixes {
		oldest := p.used.Remove(p.used.Back()).(*prefix)
		delete(p.byHash, oldest.hash)
	}
}

// hashes returns a hash of each beginning of a conversation.
func (p *prefixes) hashes(messages []chat.Message) []uint64 {
	var h maphash.Hash
	h.SetSeed(p.seed)
	list := make([]uint64, len(messages))
	for i := range messages {
		hashMessage(&h, &messages[i])
		list[i] = h.Sum64()
	}
	return list
}

package engine

// A pool is the memory of a side for keys and values, counted in tokens. What
// no answer needs any more stays as a prefix cache until its place is needed.
type pool struct {
	size    int
	private int // of answers under way alone
	pinned  int // of cached pieces that answers under way use
	idle    int // of cached pieces that nobody uses
	entries map[uint64]*entry
	lru     entry // ring of the idle ones: next is the newest, prev the oldest
}

// An entry is a cached piece of a prompt.
type entry struct {
	key        uint64
	tokens     int
	users      int
	prev, next *entry
}

func newPool(size int) *pool {
	p := &pool{size: size, entries: make(map[uint64]*entry)}
	p.lru.prev, p.lru.next = &p.lru, &p.lru
	return p
}

// used is what cannot be had for the asking.
func (p *pool) used() int { return p.private + p.pinned }

// reserve takes memory, at the cost of idle pieces if need be. It reports
// false, and takes nothing, if there is not enough.
func (p *pool) reserve(n int) bool {
	if p.used()+n > p.size {
		return false
	}
	p.private += n
	p.trim()
	return true
}

// trim drops idle pieces, the oldest first, until all fits.
func (p *pool) trim() {
	for p.used()+p.idle > p.size && p.idle > 0 {
		e := p.lru.prev
		e.unlink()
		p.idle -= e.tokens
		delete(p.entries, e.key)
	}
}

func (p *pool) release(n int) { p.private -= n }

func (e *entry) unlink() {
	e.prev.next, e.next.prev = e.next, e.prev
	e.prev, e.next = nil, nil
}

// match finds the longest cached beginning of a prompt, without using it.
func (p *pool) match(prompt []Segment) (entries, tokens int) {
	for _, s := range prompt {
		e := p.entries[s.Key]
		if e == nil || e.tokens != s.Tokens {
			break
		}
		entries++
		tokens += e.tokens
	}
	return entries, tokens
}

// hold takes the first n pieces of a prompt into use; they are cached.
func (p *pool) hold(prompt []Segment, n int, refs []*entry) []*entry {
	for _, s := range prompt[:n] {
		e := p.entries[s.Key]
		p.use(e)
		refs = append(refs, e)
	}
	return refs
}

func (p *pool) use(e *entry) {
	if e.users == 0 {
		e.unlink()
		p.idle -= e.tokens
		p.pinned += e.tokens
	}
	e.users++
}

// keep makes cached pieces of what a call has computed of its prompt. What
// another call has cached meanwhile is shared.
func (p *pool) keep(c *Call) {
	for _, s := range c.Prompt[len(c.refs):] {
		e := p.entries[s.Key]
		switch {
		case e == nil:
			e = &entry{key: s.Key, tokens: s.Tokens, users: 1}
			p.entries[s.Key] = e
			p.pinned += s.Tokens
		case e.tokens != s.Tokens:
			return // a key that is not what it should be: leave the rest alone
		default:
			p.use(e)
		}
		p.private -= s.Tokens
		c.private -= s.Tokens
		c.refs = append(c.refs, e)
	}
}

// drop ends a call's use of memory. The last pieces become idle first, so
// that no piece is dropped before those that build on it.
func (p *pool) drop(c *Call) {
	p.private -= c.private
	c.private = 0
	for i := len(c.refs) - 1; i >= 0; i-- {
		e := c.refs[i]
		if e.users--; e.users > 0 {
			continue
		}
		p.pinned -= e.tokens
		p.idle += e.tokens
		e.next, e.prev = p.lru.next, &p.lru
		e.next.prev, p.lru.next = e, e
	}
	c.refs = c.refs[:0]
	p.trim()
}

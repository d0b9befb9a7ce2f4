package llmclient

import (
	"sync"
	"time"
)

// excludeFor is how long calls pass an endpoint over that has refused one
// because of its key, its account, or a model that it does not have.
const excludeFor = time.Minute

// exclusions are the models that an endpoint has refused, and until when it is
// not asked for them again. The empty model stands for all.
type exclusions struct {
	mu     sync.Mutex
	models map[string]time.Time
}

// maxExcluded bounds the models that are remembered, since callers name them.
const maxExcluded = 1000

func (x *exclusions) put(model string, until time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.models == nil {
		x.models = make(map[string]time.Time)
	}
	if len(x.models) >= maxExcluded {
		for name := range x.models {
			delete(x.models, name) // whichever comes: they are put again if need be
			break
		}
	}
	x.models[model] = until
}

func (x *exclusions) until(now time.Time, model string) (until time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, name := range [...]string{"", model} {
		switch at, there := x.models[name]; {
		case !there:
		case !at.After(now):
			delete(x.models, name)
		case at.After(until):
			until = at
		}
	}
	return until
}

// refuses notes what an endpoint refused for good.
func (ep *endpoint) refuses(e *Error, now time.Time) {
	switch {
	case e.retryable:
	case e.Kind == ErrQuota, e.Kind == ErrAuth:
		ep.excluded.put("", now.Add(excludeFor))
	case e.Kind == ErrNotFound:
		ep.excluded.put(e.Model, now.Add(excludeFor))
	}
}

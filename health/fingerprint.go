package health

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/neverhang/neverhang/internal/version"
)

// A Fingerprint holds the settings of a run, as far as they are known here. Keep it
// with the run, and [Compare] it with that of another. It marshals to JSON and back.
type Fingerprint struct {
	Taken     time.Time         `json:"taken"`
	Neverhang string            `json:"neverhang"`        // version
	Go        string            `json:"go"`               // likewise
	Servers   []Server          `json:"servers"`          // with the workers of routers
	Client    map[string]string `json:"client,omitempty"` // settings, see [Settings]
	Env       map[string]string `json:"env,omitempty"`    // variables that the user named, see [Pick]
}

// Fingerprint detects the servers anew, and returns them with the settings of the
// client and the variables of the environment that it is given: see [Settings] and
// [Pick]. It waits until ctx ends at the latest. Servers that do not answer are in
// it as they were when they last did. What may be a secret is hidden.
func (m *Monitor) Fingerprint(ctx context.Context, client, env map[string]string) Fingerprint {
	m.mu.Lock()
	m.relook = true
	m.mu.Unlock()
	m.refresh(ctx, 0)
	f := Fingerprint{
		Taken: time.Now().UTC(), Neverhang: version.Of(debug.ReadBuildInfo()), Go: runtime.Version(),
		Servers: m.Servers(), Client: hideAll(client), Env: hideAll(env),
	}
	return f
}

// unset stands for a variable that was asked for and is not set. One that was not
// asked for is missing.
const unset = "(not set)"

// Pick looks up variables of the environment; lookup is [os.LookupEnv]. Hidden are
// the values of variables whose names are those of secrets, and what looks like a
// secret in the others. A variable that is not set has the value "(not set)".
func Pick(lookup func(string) (string, bool), names ...string) map[string]string {
	out := make(map[string]string)
	for _, name := range names {
		v, ok := lookup(name)
		if !ok {
			out[name] = unset
			continue
		}
		out[name] = hide(name, v)
	}
	return out
}

// ReadFingerprint reads one that was written as JSON.
func ReadFingerprint(r io.Reader) (Fingerprint, error) {
	var f Fingerprint
	if err := json.NewDecoder(io.LimitReader(r, maxAnswer)).Decode(&f); err != nil {
		return Fingerprint{}, fmt.Errorf("health: fingerprint: %w", err)
	}
	return f, nil
}

package health

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"time"
)

// A Fingerprint is what was set how during a run, as far as can be known from
// here. Kept with the run, it can be held against that of another: see
// [Compare]. It marshals to JSON and back.
type Fingerprint struct {
	Taken     time.Time         `json:"taken"`
	Neverhang string            `json:"neverhang"`        // version
	Go        string            `json:"go"`               // likewise
	Servers   []Server          `json:"servers"`          // and what stands behind them
	Client    map[string]string `json:"client,omitempty"` // settings, see [Settings]
	Env       map[string]string `json:"env,omitempty"`    // what the user has listed, see [Pick]
}

// Fingerprint asks the servers anew what they are, and returns that with the
// settings of the client and variables of the environment that it is given:
// see [Settings] and [Pick]. It ends with ctx at the latest; servers that do not
// answer are in it as they were when they last did. What may be a secret is
// hidden in whatever it is given.
func (m *Monitor) Fingerprint(ctx context.Context, client, env map[string]string) Fingerprint {
	m.mu.Lock()
	m.relook = true
	m.mu.Unlock()
	m.refresh(ctx, 0)
	f := Fingerprint{
		Taken: time.Now().UTC(), Neverhang: version(), Go: runtime.Version(),
		Servers: m.Servers(), Client: hideAll(client), Env: hideAll(env),
	}
	return f
}

// version is that of this module in the program that runs.
func version() string {
	const module = "github.com/neverhang/neverhang"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if info.Main.Path == module {
		return info.Main.Version
	}
	for _, d := range info.Deps {
		if d.Path == module {
			return d.Version
		}
	}
	return "unknown"
}

// unset stands for a variable that was asked for and is not set, so that it
// differs from one that nobody has asked for.
const unset = "(not set)"

// Pick looks up variables of the environment; lookup is [os.LookupEnv]. What
// may be a secret is hidden: the values of variables that are named like one, and
// what looks like one in any other. One that is not set is in it as "(not set)".
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

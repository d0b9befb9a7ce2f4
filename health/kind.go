package health

import (
	"time"
)

// A Kind is the software that a server runs.
type Kind string

// The kinds of servers that are told apart.
const (
	KindUnknown    Kind = ""
	KindSGLang     Kind = "sglang"
	KindGateway    Kind = "sglang-gateway" // SGLang's router, also known as SMG
	KindVLLM       Kind = "vllm"
	KindLlamaCPP   Kind = "llama.cpp"
	KindOllama     Kind = "ollama"
	KindTGI        Kind = "tgi"
	KindLiteLLM    Kind = "litellm"
	KindOpenRouter Kind = "openrouter"
	KindCompatible Kind = "openai-compatible" // any other that lists its models
)

// A Role is the part that a server plays in a service.
type Role string

// The roles. A server that prefills and decodes is unified.
const (
	RoleUnified Role = "unified"
	RolePrefill Role = "prefill"
	RoleDecode  Role = "decode"
	RoleRouter  Role = "router"
)

// A Server is what [Detect] found out about a server.
type Server struct {
	Name    string    `json:"name"`
	URL     string    `json:"url"` // without credentials and query
	Kind    Kind      `json:"kind,omitempty"`
	Role    Role      `json:"role,omitempty"`
	Version string    `json:"version,omitempty"`
	Models  []string  `json:"models,omitempty"`
	Started time.Time `json:"started,omitzero"` // of the process, if it tells

	// Metrics reports whether there is a page of metrics to read.
	Metrics bool `json:"metrics"`

	// Labels are the labels of its metrics that have one value only.
	Labels map[string]string `json:"labels,omitempty"`

	// Info holds its settings, with flattened names such as a.b.0.c. Values that
	// may be secret are hidden.
	Info map[string]string `json:"info,omitempty"`

	// Workers are the addresses that a router has named, by role.
	Workers []Worker `json:"workers,omitempty"`

	// Asked are the questions that Detect has asked.
	Asked []Question `json:"asked,omitempty"`

	reach Reach
}

// A Worker is a server behind a router, as the router sees it.
type Worker struct {
	URL     string `json:"url"`
	Role    Role   `json:"role"`
	Healthy bool   `json:"healthy"`
}

// A Question is a question to a server, and how far it came.
type Question struct {
	Path   string        `json:"path"`
	Status int           `json:"status,omitempty"` // 0 if no answer came
	Took   time.Duration `json:"took"`
	Reach  Reach         `json:"reach"`
}

// A Reach is how far a question to a server came.
type Reach string

// How far a question may come.
const (
	ReachUnasked   Reach = ""
	ReachAnswered  Reach = "reached" // an answer came, whatever its status
	ReachRefused   Reach = "refused" // nothing listens there
	ReachNoName    Reach = "no such name"
	ReachBadTLS    Reach = "TLS failed"
	ReachNoConnect Reach = "no connection" // not connected in time
	ReachSilent    Reach = "silent"        // connected, and no answer in time
	ReachBroken    Reach = "broken"        // the connection broke
)

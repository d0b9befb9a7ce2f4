package health

import (
	"time"
)

// A Kind is what software a server is.
type Kind string

// The kinds of servers that are told apart.
const (
	Unknown    Kind = ""
	SGLang     Kind = "sglang"
	Gateway    Kind = "sglang-gateway" // SGLang's router, also known as SMG
	VLLM       Kind = "vllm"
	LlamaCPP   Kind = "llama.cpp"
	Ollama     Kind = "ollama"
	TGI        Kind = "tgi"
	LiteLLM    Kind = "litellm"
	OpenRouter Kind = "openrouter"
	Compatible Kind = "openai-compatible" // nothing more is known of it
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

// A Server is what was found out about one.
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

	// Labels are those of its metrics that have one value only.
	Labels map[string]string `json:"labels,omitempty"`

	// Info is what it tells about its settings, flattened: a.b.0.c. What looks
	// like a secret is left out.
	Info map[string]string `json:"info,omitempty"`

	// Workers are the addresses that a router has named, by role.
	Workers []Worker `json:"workers,omitempty"`

	// Asked are the questions that were asked, and what came of them.
	Asked []Question `json:"asked,omitempty"`

	reach Reach
}

// A Worker is a server behind a router, as the router sees it.
type Worker struct {
	URL     string `json:"url"`
	Role    Role   `json:"role"`
	Healthy bool   `json:"healthy"`
}

// A Question is one that a server was asked.
type Question struct {
	Path   string        `json:"path"`
	Status int           `json:"status,omitempty"` // 0 if no answer came
	Took   time.Duration `json:"took"`
	Reach  Reach         `json:"reach"`
}

// A Reach is how far a question came.
type Reach string

// How far a question may come.
const (
	Unasked   Reach = ""
	Reached   Reach = "reached" // an answer came, whatever its status
	Refused   Reach = "refused" // nobody listens there
	NoName    Reach = "no such name"
	BadTLS    Reach = "TLS failed"
	NoConnect Reach = "no connection" // none came about in time
	Silent    Reach = "silent"        // connected, and no answer in time
	Broken    Reach = "broken"        // the connection broke
)

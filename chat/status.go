package chat

import (
	"strconv"
	"strings"
)

func isStatus(n int) bool { return n >= 400 && n <= 599 }

// statusOf finds the HTTP status that an error states, as a code, as a status,
// or by a name.
func statusOf(e *ServerError) int {
	if n, err := strconv.Atoi(e.Code); err == nil && isStatus(n) {
		return n
	}
	if isStatus(e.Status) {
		return e.Status
	}
	if n := namedStatus(e.Code); n != 0 {
		return n
	}
	return namedStatus(e.Type)
}

// namedStatus returns the status that a name stands for. Names that servers use with
// several statuses are missing, above all invalid_request_error.
func namedStatus(name string) int {
	if bare, ok := strings.CutSuffix(name, "Exception"); ok {
		return exceptionStatus(bare)
	}
	switch name {
	case "BAD_REQUEST", "INVALID_ARGUMENT", "BadRequestError", "context_length_exceeded", "exceed_context_size_error":
		return 400
	case "UNAUTHORIZED", "UNAUTHENTICATED", "authentication_error", "invalid_api_key":
		return 401
	case "billing_error":
		return 402
	case "FORBIDDEN", "PERMISSION_DENIED", "permission_error":
		return 403
	case "NOT_FOUND", "NotFoundError", "not_found_error", "model_not_found":
		return 404
	case "REQUEST_ENTITY_TOO_LARGE", "request_too_large":
		return 413
	case "UNPROCESSABLE_ENTITY", "validation":
		return 422
	case "TOO_MANY_REQUESTS", "RESOURCE_EXHAUSTED", "REQUEST_LIMIT_EXCEEDED", "rate_limit_error", "rate_limit_exceeded", "insufficient_quota":
		return 429
	case "INTERNAL_SERVER_ERROR", "INTERNAL", "InternalServerError", "api_error", "server_error":
		return 500
	case "NOT_IMPLEMENTED", "UNIMPLEMENTED", "not_supported_error":
		return 501
	case "BAD_GATEWAY":
		return 502
	case "SERVICE_UNAVAILABLE", "UNAVAILABLE", "unavailable_error", "service_unavailable_error", "server_is_overloaded":
		return 503
	case "GATEWAY_TIMEOUT", "DEADLINE_EXCEEDED", "timeout_error":
		return 504
	case "overloaded_error":
		return 529
	}
	return 0
}

// exceptionStatus is namedStatus for AWS's exceptions, which begin with a capital
// letter in a body and with a small one in an event.
func exceptionStatus(name string) int {
	if name == "" {
		return 0
	}
	switch strings.ToLower(name[:1]) + name[1:] {
	case "validation", "serialization", "serviceQuotaExceeded":
		return 400
	case "accessDenied", "unrecognizedClient", "expiredToken", "invalidSignature":
		return 403
	case "resourceNotFound":
		return 404
	case "modelTimeout":
		return 408
	case "throttling", "tooManyRequests", "modelNotReady":
		return 429
	case "internalServer", "internalFailure":
		return 500
	case "serviceUnavailable":
		return 503
	}
	return 0
}

// admits reports whether an object that is not marked as an error is one: by the
// status or code of a failure, or by the name of one. A message alone proves nothing,
// since servers report their progress in one.
func (e *ServerError) admits() bool {
	code, _ := strconv.Atoi(e.Code)
	return e.Status >= 400 || code >= 400 || soundsBad(e.Type) || soundsBad(e.Code)
}

func soundsBad(name string) bool {
	name = strings.ToLower(name[:min(len(name), 100)])
	for _, word := range []string{
		"error", "exception", "fail", "invalid", "denied", "throttl", "exceeded", "exhausted",
		"overloaded", "unavailable", "timeout", "timedout", "insufficient", "forbidden", "unauthorized", "arrear",
	} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}

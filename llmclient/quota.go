package llmclient

import (
	"net/http"
	"strings"
)

// quota reports whether the account's quota is used up, so that no wait within a call
// helps: it has no credit, or a limit that its owner has set is reached, or the
// limit of a day or a week.
func (r *refusal) quota() bool {
	switch s := r.status; {
	case s > http.StatusBadGateway:
		return isAny(r.own, moneyNames...) // in such errors words are no evidence
	case containsAny(r.words, minuteWords...) && !containsAny(r.words, "free allocated quota"):
		return false
	}
	switch {
	case isAny(r.names, moneyNames...), containsAny(r.words, moneyWords...):
		return true
	case r.status < 500 && strings.Contains(r.body, "enforced_spend_limit_reached"):
		return true
	case strings.Contains(r.body, "quotaId") && strings.Contains(r.body, "PerDay"):
		// Google names a wait of seconds even then.
		return true
	case r.named:
		return false // the error names the time of the reset
	}
	return isAny(r.names, periodNames...) || containsAny(r.words, periodWords...)
}

var (
	// minuteWords are those of throttles that call themselves a quota. DashScope's
	// limit of a minute has OpenAI's code and words for an empty account; only a link
	// differs.
	minuteWords = []string{"error-code#token-limit", "allocated quota exceeded"}

	// moneyNames and moneyWords: the account is empty until its owner pays or raises
	// a limit.
	moneyNames = []string{
		"insufficientquota", "insufficientbalance", "insufficientcredits", "insufficientfunds", "notenoughbalance",
		"billing", "billingnotactive", "billinghardlimitreached", "exceededcurrentquota", "creditbalanceexhausted",
		"organizationspendlimitexceeded", "projectspendlimitexceeded", "organizationusagelimitexceeded",
		"budgetexceeded", "arrearage", "accountoverdue", "setlimitexceeded", "servicequotaexceeded", "freetieronly",
		"allocationquotafreetieronly", "tokenquotareached", "exceedtokenquotalimit", "insufficientcreditlimit",
	}
	moneyWords = []string{
		"insufficient balance", "balance is insufficient", "not enough balance", "credit balance is too low",
		"insufficient credit", "no credits remaining", "used all available credits", "have any credits", "out of credits",
		"requires more credits", "monthly included credits", "budget has been exceeded", "key limit exceeded",
		"overdue balance", "past due", "account is in good standing", "account is not active",
		"monthly spending limit", "monthly spend limit", "spending limit reached", "spending limit exceeded",
		"reached your spending limit", "credit card on file", "free tier of the model has been exhausted",
		"hard limit has been reached", "have a free quota tier", "limit: 0, model",
		"余额不足", "欠费",
	}

	// periodNames and periodWords: used up for hours or days, unless the error says
	// for how long.
	periodNames = []string{"quotaexceeded", "usagelimitreached", "usagelimitexceeded"}
	periodWords = []string{
		"exceeded your current quota", "free allocated quota exceeded", "daily free allocation", "usage limit reached",
		"usage limit has been reached", "specified api usage limits", "session usage limit", "hourly usage limit",
		"daily usage limit", "weekly usage limit", "monthly usage limit", "tokens per day, ", "(tpd)", "(rpd)", "-per-day",
		"api calls / month", "使用上限",
	}
)

package provider

import (
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/status"
)

// pastAttempts returns what is shown of the earlier attempts at a job.
func pastAttempts(past []status.Past) (shown []jobapi.Attempt) {
	for _, p := range past {
		a := jobapi.Attempt{
			Number: max(0, p.Number), Worker: jobapi.ShownText(p.Worker, maxName), Started: jobapi.At(p.Started), Finished: jobapi.At(p.Finished),
			Outcome: p.Outcome, Message: jobapi.ShownText(p.Reason, maxReason),
		}
		switch p.Outcome {
		case "failed", "handed back":
		case "crashed":
			a.Message = "nothing more was heard of its worker"
		default:
			continue // somebody else has written there
		}
		shown = append(shown, a)
	}
	return shown
}

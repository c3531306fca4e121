package wire

import "fmt"

// Ack has the members of a [JobResult] that a leader reads. Output and archive stay in the payload.
type Ack struct {
	JobID      GUID
	ClientID   string
	ExecName   string
	Status     string
	Reason     string
	Attempt    int
	DurationMs int64
	ExitCode   *int
	Index      *int64
}

// maxReason is in bytes. Unknown reasons are passed on.
const maxReason = 64

var ackFields = []string{"JobId", "ClientId", "ExecName", "Status", "Reason", "Attempt", "DurationMs", "ExitCode", "Index", "Stdout", "Stderr", "OutputArchive"}

// ReadAck reads the payload of an AckJob. It checks all members that it returns, and that a client can decode the output and the archive. The
// Ack does not refer to the payload.
func ReadAck(payload []byte) (Ack, error) {
	var a Ack
	err := scan(payload, ackFields, func(in *scanner, field int) (err error) {
		switch name := ackFields[field]; name {
		case "JobId":
			err = in.guidInto(name, &a.JobID)
		case "ClientId":
			err = in.textInto(name, &a.ClientID)
		case "ExecName":
			err = in.textInto(name, &a.ExecName)
		case "Status":
			err = in.textInto(name, &a.Status)
		case "Reason":
			err = in.textInto(name, &a.Reason)
		case "Stdout", "Stderr":
			err = in.skipText(name)
		case "OutputArchive":
			_, _, err = in.base64(name)
		default:
			err = a.number(in, name)
		}
		return err
	})
	if err == nil {
		err = a.check()
	}
	if err != nil {
		return Ack{}, err
	}
	return a, nil
}

func (a *Ack) number(in *scanner, name string) error {
	if in.null() {
		return nil
	}
	n, err := in.number(name)
	switch name {
	case "Attempt":
		a.Attempt = int(n)
	case "DurationMs":
		a.DurationMs = n
	case "ExitCode":
		code := int(n)
		a.ExitCode = &code
	case "Index":
		a.Index = &n
	}
	return err
}

func (a *Ack) check() error {
	if err := checkNames(a.JobID, a.ClientID, a.ExecName); err != nil {
		return err
	}
	switch {
	case a.Status != OK && a.Status != Failed && a.Status != Duplicate:
		return fmt.Errorf("member Status %.80q must be %s, %s or %s", a.Status, OK, Failed, Duplicate)
	case len(a.Reason) > maxReason:
		return fmt.Errorf("member Reason %.80q has %d bytes, at most %d", a.Reason, len(a.Reason), maxReason)
	case a.Attempt < 0 || a.DurationMs < 0 || a.Index != nil && *a.Index < 0:
		return fmt.Errorf("members Attempt, DurationMs and Index must not be negative")
	}
	return nil
}

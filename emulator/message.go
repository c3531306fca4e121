package emulator

import (
	"errors"
	"fmt"
	"strings"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
)

// checkMessage returns an error for a message that Google would not accept.
func checkMessage(m *pubsubpb.PubsubMessage) error {
	switch size := messageSize(m); {
	case len(m.GetData()) == 0 && len(m.GetAttributes()) == 0:
		return errors.New("must have data or at least one attribute")
	case size > maxMessageBytes:
		return fmt.Errorf("too large: %d bytes, at most %d", size, maxMessageBytes)
	case len(m.GetOrderingKey()) > maxOrderingKey:
		return fmt.Errorf("ordering key too long: %d bytes, at most %d", len(m.GetOrderingKey()), maxOrderingKey)
	case len(m.GetAttributes()) > maxAttributes:
		return fmt.Errorf("too many attributes: %d, at most %d", len(m.GetAttributes()), maxAttributes)
	}
	for k, v := range m.GetAttributes() {
		switch {
		case k == "" || len(k) > maxAttributeKey:
			return fmt.Errorf("attribute key %s: want 1 to %d bytes", clip(k), maxAttributeKey)
		case strings.HasPrefix(k, "goog"):
			return fmt.Errorf(`attribute key %s: must not begin with "goog"`, clip(k))
		case len(v) > maxAttributeValue:
			return fmt.Errorf("attribute %s too long: %d bytes, at most %d", clip(k), len(v), maxAttributeValue)
		}
	}
	return nil
}

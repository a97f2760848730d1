// Package jet has what the packages on JetStream share: names, and the bounds of a request and of a message.
package jet

import (
	"errors"
	"regexp"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Timeout is how long a request to JetStream may last.
const Timeout = 5 * time.Second

// RoomOfHeaders is how many bytes of the largest message the headers and the subject may take.
// The server counts headers, and the header that says which sequence is expected comes from the client
// library.
const RoomOfHeaders = 1 << 10

// goodName finds the texts of IsName. Dots, blanks and wildcards have a meaning in names and subjects of NATS.
var goodName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,32}$`)

// IsName reports whether a text may be in the names of streams, buckets and keys: 1 to 32 letters, digits, _ and -.
func IsName(s string) bool { return goodName.MatchString(s) }

// IsChanged reports whether an error says that a message came before the one that was to be the next. Streams on one server and those on several
// have a code of their own for it.
func IsChanged(err error) bool {
	var refused *jetstream.APIError
	return errors.Is(err, jetstream.ErrKeyExists) ||
		errors.As(err, &refused) && (refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}

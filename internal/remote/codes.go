package remote

// The codes of a worker.Error, which worker/protocol.md lists.
const (
	CodeInvalid       = "invalid_request"     // 400: not what the method takes
	CodeVersion       = "unsupported_version" // 400, or 404 in a path
	CodeUnauthorized  = "unauthorized"        // 401: no token, or a wrong one
	CodeForbidden     = "forbidden"           // 403: from another machine or site, where no token is set; or in another's name
	CodeNotFound      = "not_found"           // 404: no such path, or no such blob
	CodeUnknownWorker = "unknown_worker"      // 404: not registered, or forgotten: register again
	CodeMethod        = "method_not_allowed"  // 405
	CodeNotHolder     = "not_holder"          // 409: another worker holds the key, or has completed it, or was given it
	CodeReplaced      = "replaced"            // 409: another process has registered under the id
	CodeStale         = "stale"               // 409: the attempt is over, or never was: drop the result
	CodeTooLarge      = "too_large"           // 413: the body is over the limit
	CodeTooMany       = "too_many_workers"    // 429
	CodeDamaged       = "blob_damaged"        // 500: the blob cannot be read
	CodeBusy          = "busy"                // 503: try again
	CodeClosed        = "closed"              // 503: the pool is closed
)

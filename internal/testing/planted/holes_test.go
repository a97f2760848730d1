package planted

// holes are bugs that let strangers in: each takes one defence away against definitions, values, workers,
// servers, files or tenants that are not trusted.
var holes = []bug{
	{
		"any text is the MAC of a task's key", "internal/taskkey/taskkey.go",
		"!hmac.Equal([]byte(mac), base64.RawURLEncoding.AppendEncode(nil, want))", "len(want) == 0",
		".", "TestForeignKeysAreStale",
	},
	{
		"a worker settles tasks that others were given", "worker/tag.go",
		"if at < 0 || !hmac.Equal(", "if at < 0 || false && !hmac.Equal(",
		"./worker", "TestKeysInOtherHandsAreRefused",
	},
	{
		"what follows 101 Switching Protocols is read", "handler/http_response.go",
		"if resp.StatusCode >= http.StatusOK {", "if resp.StatusCode >= 100 {",
		"./handler", "TestHTTPRefusesSwitchingProtocols",
	},
	{
		"a body is read for as long as its server likes", "handler/http.go",
		"func() { resp.Body.Close() })", "func() {})",
		"./handler", "TestHTTPReadsNoBodyBeyondItsContext",
	},
	{
		"$ref doubles a schema without bound", "internal/schema/bounds.go",
		"if sum += n; sum > limits.MaxAppliedSchemas {", "if sum += n; sum < 0 {",
		"./internal/schema", "TestHostileSchemasAreRefused",
	},
	{
		"the check of a value has no bound of cost", "internal/schema/schema.go",
		"	case m.left < 0:\n", "	case m.left < 0 && most < 0:\n",
		"./internal/schema", "TestHostileChecksEndAtTheirCost",
	},
	{
		"YAML may have directives", "internal/document/yaml.go",
		"if len(before) == 0 || slices.ContainsFunc(", "if false && slices.ContainsFunc(",
		"./internal/document", "TestDirectivesAreRefused",
	},
	{
		"methods of a result are called where nobody recovers", "internal/remote/perform.go",
		"output, err = plainResult(p.Handlers.Execute(ctx, t))", "output, err = p.Handlers.Execute(ctx, t)",
		"./worker", "TestHostileResultsFailTheirTask",
	},
	{
		"connections of strangers are not bounded", "worker/connection.go",
		"e != nil && l.open >= l.most {", "e != nil && l.open < 0 {",
		"./worker", "TestSilentStrangersKeepNobodyOut",
	},
	{
		"a refused connection stays open", "worker/handler.go",
		"w.Header().Set(\"Connection\", \"close\")", "w.Header().Set(\"X-Connection\", \"close\")",
		"./worker", "TestRefusedConnectionsAreClosed",
	},
	{
		"too many open files fail a task for good", "errors.go",
		"	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)", "	return err == nil && errors.Is(err, syscall.EMFILE)",
		".", "TestTasksWaitForDescriptors",
	},
	{
		"Close seals whatever is called pawl.db", "store/close.go",
		"if err == nil && !os.SameFile(info, d.file) {", "if err == nil && info == nil {",
		"./store", "TestCloseSealsTheFileThatIsOpen",
	},
	{
		"Open does not compare what was closed", "store/create.go",
		"d.checkStaleLog, d.checkFingerprint}", "d.checkStaleLog}",
		"./store", "TestOpenComparesTheFingerprint",
	},
	{
		"a result whose blob is missing is delivered for ever", "internal/remote/result.go",
		"} else if errors.Is(err, blob.ErrMissing) || errors.Is(err, blob.ErrDamaged) {", "} else if err == blob.ErrMissing {",
		"./worker", "TestAResultWithAMissingBlob",
	},
	{
		"free pages keep what was purged", "store/erase.go",
		"	if err != nil || free == 0 || !erase && free*vacuumFrom < pages {\n", "	if true {\n",
		"./store", "TestPurgeErases",
	},
	{
		"definitions stay for ever", "store/definition.go",
		"	ds.unused.waiting[hash] = true\n", "",
		"./store", "TestUnusedDefinitionsAreCollected",
	},
	{
		"compiled definitions are remembered whatever their size", "store/definition.go",
		"ds.graphs.Put(g.Hash, g, len(g.JSON), maxKnown)", "ds.graphs.Put(g.Hash, g, 0, maxKnown)",
		"./store", "TestKnownDefinitionsAreBoundedInBytes",
	},
	{
		"expressions are not bounded together", "workflow/validate_expression.go",
		"if before <= most && c.source > most {", "if before < 0 {",
		"./workflow", "TestExpressionsAreBoundedTogether",
	},
	{
		"a run writes as many bytes as it likes", "planning/stall.go",
		"most := p.s.Graph.Limits.RunBytes; m.Bytes > most {", "most := p.s.Graph.Limits.RunBytes; m.Bytes < 0 {",
		".", "TestTheBytesOfARunAreBounded",
	},
	{
		"signals are kept whatever their size", "planning/signal.go",
		"	case bytes > most:\n", "	case bytes < 0:\n",
		".", "TestTheBytesOfKeptSignalsAreBounded",
	},
	{
		"Allow sees another name than the one that is connected to", "handler/address.go",
		"	return idna.Lookup.ToASCII(host)\n", "	_ = idna.Lookup\n	return host, nil\n",
		"./handler", "TestHTTPAllowIsAskedAboutTheNameThatIsConnectedTo",
	},
	{
		"credentials go to every host", "handler/address.go",
		"	case len(o.Hosts) == 0:\n", "	case o.Timeout < 0:\n",
		"./handler", "TestHTTPPreparesOnlyForNamedHostsOverTLS",
	},
	{
		"an operand may be an option", "handler/exec_command.go",
		" && (end <= 0 || i < end) {", " && end < -1 && i < 0 {",
		"./handler", "TestExecOffersNothingButItsHoles",
	},
	{
		"a worker speaks for another", "worker/access.go",
		"c.Worker != every && c.Worker != id {", "c.Worker == \"\" {",
		"./worker", "TestAWorkerSpeaksForItselfOnly",
	},
	{
		"a revoked worker comes back", "worker/access.go",
		"	if p.revoked[id] {\n", "	if p.revoked[id] && id == \"\" {\n",
		"./worker", "TestARevokedWorkerIsKeptOut",
	},
	{
		"a token that is not set lets everybody in", "worker/access.go",
		"	if ways != 1 {\n", "	if ways > 1 {\n",
		"./worker", "TestAnUnsetTokenServesNobody",
	},
	{
		"other machines are served in clear text", "worker/listen.go",
		"if p.options.TLS == nil && !p.options.PlainHTTP &&", "if p.options.TLS == nil && false &&",
		"./worker", "TestListen",
	},
	{
		"a client certificate that nobody has verified counts", "worker/tls.go",
		"len(r.TLS.VerifiedChains) == 0 {", "len(r.TLS.PeerCertificates) == 0 {",
		"./worker", "TestMutualTLS",
	},
	{
		"every heartbeat is a record", "internal/dispatch/heartbeat.go",
		"time.Since(p.last) >= t.mergeTime() {", "time.Since(p.last) >= 0 {",
		".", "TestHeartbeatsAreMerged",
	},
	{
		"others read the pawl.db of a backup", "store/backup.go",
		"	err := writeSynced(to, nil) // SQLite would let others read it\n", "	err := error(nil)\n",
		"./store", "TestABackupIsForItsUserAlone",
	},
	{
		"messages quote what a server has sent", "handler/http.go",
		"quotedText.ReplaceAllLiteralString(err.Error(), `\"...\"`))", "err.Error())",
		"./handler", "TestHTTPQuotesNothingOfAnAnswerThatIsNone",
	},
	{
		"a directory for everybody is taken without a word", "store/create.go",
		"	if mode.Perm()&0o002 != 0 {\n", "	if mode.Perm()&0o002 != 0 && owner < -1 {\n",
		"./store", "TestADirectoryForEverybodyIsTold",
	},
	{
		"a field of a message may be there twice", "internal/strict/strict.go",
		"		if seen[name] {\n", "		if seen[name] && false {\n",
		"./worker", "TestRefusals",
	},
	{
		"PutBlob takes types that no reference can have", "blob.go",
		"if _, err := blob.ParseRef(blob.Ref{Hash: emptyBlob, Type: mediaType}); err != nil {", "if _, err := blob.ParseRef(blob.Ref{Hash: emptyBlob}); err != nil {",
		".", "TestPutBlobRefusesWhatNoReferenceCanHave",
	},
	{
		"a reference may lie about the size", "internal/keeping/keeping.go",
		"if err == nil && info.Size != ref.Size {", "if err == nil && info.Size < 0 {",
		".", "TestReferencesGiveTheSizeOfTheirBlob",
	},
	{
		"schema_error quotes the value", "internal/schema/schema.go",
		"	case *kind.Pattern:\n		return fmt.Sprintf(\"it does not match the pattern %q\", k.Want)\n", "",
		"./internal/schema", "TestSchemaErrorsQuoteNoValue",
	},
	{
		"an engine without a logger is silent", "engine.go",
		"o.Logger = slog.Default()", "o.Logger = slog.New(slog.DiscardHandler)",
		".", "TestTheDefaultLoggerTellsOfAFullDisk",
	},
	{
		"tenants take no turns at slots", "internal/taskqueue/queue.go",
		"lt.turn, lt.tenant.turn = q.nextTurn(), q.nextTurn()", "lt.turn, lt.tenant.turn = 0, 0",
		".", "TestATenantIsNotDelayedByAnother",
	},
	{
		"a tenant has as many tasks as it likes", "internal/taskqueue/tenant.go",
		"n.bound > 0 && n.out", "n.bound < 0 && n.out",
		".", "TestLimitsOfTenants",
	},
	{
		"what is at work elsewhere counts for no tenant", "internal/dispatch/dispatcher.go",
		"if !t.pending || !d.o.TenantLimit(", "if t.pending || !d.o.TenantLimit(",
		"./worker", "TestOneCountForTheProcessAndItsPool",
	},
	{
		"a tenant has as many active runs as it likes", "run.go",
		"limit.Active > 0 && ofTenant >= limit.Active", "limit.Active < 0 && ofTenant >= limit.Active",
		".", "TestLimitsOfTenants",
	},
	{
		"the runs of a tenant fill the disk", "run.go",
		"n >= limit.Bytes {", "n < 0 {",
		".", "TestTheBytesOfATenantAreBounded",
	},
	{
		"a purge gives a tenant nothing back", "store/counts.go",
		"	b.countBytes(tenant, -fileSize)\n", "",
		"./store", "TestTenantBytes",
	},
	{
		"an example keeps its state where others can put something", "examples/fanout/main.go",
		"\"fanout-data\"", "filepath.Join(os.TempDir(), \"fanout-data\")",
		"./examples/fanout", "TestTheStateIsInAFolderOfItsOwn",
	},
	{
		"Close says that the disk does not answer, whatever it waits for", "internal/closing/closing.go",
		"case at == Directory, c.o.Disk.IsCommitting():", "case true:",
		".", "TestCloseSaysWhatItWaitsFor",
	},
	{
		"texts are stored in the clear beside a codec", "internal/seal/seal.go",
		"	if s.codec == nil {\n		return plain, nil\n	}\n	stored, err", "	if s.codec == nil || len(place) > 0 {\n		return plain, nil\n	}\n	stored, err",
		".", "TestCodecHidesValues",
	},
	{
		"a name that looks like another one counts beside it", "internal/texts/texts.go",
		"	case i >= 0:\n		r, _ := utf8.DecodeRuneInString(name[i:])\n		return \"\",", "	case i >= 0 && false:\n		r, _ := utf8.DecodeRuneInString(name[i:])\n		return \"\",",
		".", "TestNamesAndReasonsThatAreRefused",
	},
	{
		"nobody knows who has made a call", "as.go",
		"	return c.Act, nil\n", "	return state.Act{}, nil\n",
		".", "TestEveryCallNamesWhoMadeIt",
	},
	{
		"the example for strangers has the limits of everybody", "examples/untrusted/admit.go",
		"	def.Limits = lowerAll(def.Limits, limits())\n", "",
		"./examples/untrusted", "TestRunsThatEndAtABound",
	},
	{
		"one caller has any number of whole runs in memory", "internal/crowd/crowd.go",
		"maxReplaysOf = 8\n", "maxReplaysOf = 4096\n",
		"./api", "TestReadersOfWholeRunsAreBounded",
	},
	{
		"any number of readers watch", "internal/watching/hub.go",
		"	if len(all) > MaxReaders {\n", "	if len(all) < 0 {\n",
		".", "TestReadersOfWatchAreBounded",
	},
	{
		"the records of an export are believed", "replay/recording.go",
		"if p := recover(); p != nil {", "if p := any(nil); p != nil {",
		"./replay", "TestHostileExports",
	},
}

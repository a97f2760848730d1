#!/bin/sh
# A worker that squares numbers: sh worker.sh URL TOKEN ID
URL=$1 TOKEN=$2 ID=$3

call() { # PATH BODY
	curl --silent --show-error --fail-with-body -H "Authorization: Bearer $TOKEN" --data "$2" "$URL/v1/$1"
}

call register "{\"worker\": \"$ID\", \"types\": [\"square\"], \"capacity\": 1}" || exit 1
while reply=$(call poll "{\"worker\": \"$ID\", \"wait\": \"30s\"}"); do
	key=$(printf '%s' "$reply" | sed -n 's/.*"key":"\([^"]*\)".*/\1/p')
	if [ -z "$key" ]; then
		case $reply in *'"draining":true'*) break ;; esac
		continue
	fi
	n=$(printf '%s' "$reply" | sed -n 's/.*"input":{"n":\([0-9]*\)}.*/\1/p')
	call complete "{
		\"version\": \"1.0\", \"worker\": \"$ID\", \"key\": \"$key\", \"status\": \"completed\",
		\"result\": {\"square\": $((n * n))}, \"metadata\": {\"by\": \"$ID\"}
	}"
done
call leave "{\"worker\": \"$ID\"}"

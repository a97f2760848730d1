package handler

import (
	"net/netip"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPublic(t *testing.T) {
	for address, want := range map[string]bool{
		"8.8.8.8": true, "1.1.1.1": true, "172.32.0.1": true, "100.128.0.1": true, "223.255.255.255": true,
		"2606:4700::1111": true, "2a00:1450::1": true, "::ffff:8.8.8.8": true,
		"0.0.0.0": false, "10.1.2.3": false, "100.64.0.1": false, "127.0.0.1": false, "127.255.255.254": false, "169.254.169.254": false,
		"172.16.0.1": false, "172.31.255.255": false, "192.168.0.1": false, "198.19.0.1": false, "224.0.0.1": false, "240.0.0.1": false,
		"255.255.255.255": false, "::": false, "::1": false, "::ffff:10.0.0.1": false, "64:ff9b::a00:1": false, "fc00::1": false, "fd12::1": false,
		"fe80::1": false, "fe80::1%eth0": false, "ff02::1": false, "2001::1": false, "2001:db8::1": false, "2002:7f00:1::": false, "::7f00:1": false,
	} {
		assert.Equal(t, want, isPublicAddress(netip.MustParseAddr(address)), address)
	}
	assert.False(t, isPublicAddress(netip.Addr{}))
	require.Error(t, refusePrivate("tcp", "no address", nil))
}

func TestSameHost(t *testing.T) {
	tests := []struct {
		from, to string
		want     bool
	}{
		{"http://a/x", "http://a/y", true},
		{"http://a", "http://A.:80", true},
		{"http://a", "https://a", true},
		{"https://a", "http://a", false},
		{"http://a:8080", "https://a", false},
		{"http://a", "https://a:8443", false},
		{"http://a", "http://a:8080", false},
		{"http://a", "http://b.a", false},
		{"https://[::1]:443", "https://[::1]", true},
	}
	for _, tt := range tests {
		from, err := url.Parse(tt.from)
		require.NoError(t, err)
		to, err := url.Parse(tt.to)
		require.NoError(t, err)
		assert.Equal(t, tt.want, sameHost(from, to), "%s to %s", tt.from, tt.to)
	}
}

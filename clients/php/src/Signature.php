<?php

declare(strict_types=1);

namespace Wakecall;

/** The signatures of callbacks (Standard Webhooks). */
final class Signature
{
    /**
     * Checks the signature of a callback (Standard Webhooks), or throws a SignatureException.
     *
     * @param string|string[] $secrets   the topic's, whsec_…; several while one is being rotated
     * @param array           $headers   as getallheaders() or PSR-7 return them
     * @param string          $body      the bytes as received: file_get_contents('php://input')
     * @param int             $tolerance seconds that the callback's time may differ from this host's clock
     */
    public static function verify(string|array $secrets, array $headers, string $body, int $tolerance = 300): void
    {
        $value = static function (string $name) use ($headers): string {
            $found = array_change_key_case($headers)[$name] ?? '';
            return is_array($found) ? implode(' ', $found) : (string) $found;
        };
        [$id, $sent] = [$value('webhook-id'), $value('webhook-timestamp')];
        if ($id === '' || !preg_match('/^[0-9]{1,12}$/D', $sent)) {
            throw new SignatureException('the callback has no webhook-id or no valid webhook-timestamp');
        }
        if (abs(time() - (int) $sent) > $tolerance) {
            throw new SignatureException("webhook-timestamp $sent is over $tolerance s away from this host's clock");
        }
        $found = false;
        foreach ((array) $secrets as $secret) {
            $key = base64_decode(preg_replace('/^whsec_/', '', $secret), true);
            if ($key === false || $key === '') {
                throw new \InvalidArgumentException('secrets must be whsec_ followed by base64');
            }
            $want = 'v1,' . base64_encode(hash_hmac('sha256', "$id.$sent.$body", $key, true));
            foreach (explode(' ', $value('webhook-signature')) as $signature) {
                $found = hash_equals($want, $signature) || $found;
            }
        }
        if (!$found) {
            throw new SignatureException("no signature matches: is the topic's secret another one?");
        }
    }
}

import * as assert from 'uvu/assert'
import type { TelemetrySettings } from '../../../dataplane/config/telemetry.ts'
import { eventually } from '../eventually.ts'
import { createAuthority } from '../network/certificates.ts'
import { type OtlpReceiver, startOtlpReceiver } from './otlp-receiver.ts'

type OpenTelemetry = NonNullable<TelemetrySettings['openTelemetry']>

/** A server that exports telemetry over TLS, with a CA and a secret in files. */
export interface SecuredSender {
  readonly lines: readonly Readonly<Record<string, unknown>>[]
  /** Does something that is traced. */
  act(): Promise<unknown>
  /** Writes a file beside its configuration. */
  write(file: string, text: string): Promise<void>
  /** Applies other settings. */
  configure(openTelemetry: OpenTelemetry): Promise<void>
}

/** Names of its files. */
export const SECURED = { ca: 'ca.crt', token: 'token' } as const

/**
 * Checks that a server exports only to an endpoint that it trusts, and keeps exporting when CA and secret are replaced
 * while it runs. `start` starts it with these settings and files; `end` gets what has to be closed at the end. Returns
 * the last endpoint.
 */
export async function assertSecured<Sender extends SecuredSender>(
  start: (openTelemetry: OpenTelemetry, files: Readonly<Record<string, string>>) => Promise<Sender>,
  end: (one: () => Promise<unknown>) => void,
): Promise<{ readonly sender: Sender; readonly receiver: OtlpReceiver }> {
  const authorities = [await createAuthority(), await createAuthority()] as const
  for (const authority of authorities) end(() => authority.remove())
  const [known, other] = authorities
  const [first, second] = [await startOtlpReceiver(known), await startOtlpReceiver(other)]
  for (const receiver of [first, second]) end(() => receiver.close())
  const sending = {
    tracing: { enabled: true, samplingRate: '1.0' },
    metrics: { enabled: true },
    headers: { 'x-team': 'a' },
    sensitiveHeaders: [{ name: 'Authorization', file: SECURED.token }],
    caBundleFile: SECURED.ca,
  }
  const files = { [SECURED.ca]: known.ca, [SECURED.token]: 'one\n' }
  const sender = await start({ ...sending, endpoint: first.url }, files)
  await sender.act()
  await first.received(1)
  assert.equal([first.exports[0]?.headers['authorization'], first.exports[0]?.headers['x-team']], ['one', 'a'])
  await sender.write(SECURED.token, 'two')
  await eventually('the new secret is sent', async () => {
    await sender.act()
    return first.exports.at(-1)?.headers['authorization'] === 'two'
  })

  await sender.configure({ ...sending, endpoint: second.url })
  await eventually('the endpoint is not trusted', () =>
    sender.lines.some(({ msg }) => /does not accept/.test(String(msg))),
  )
  assert.equal(second.exports, [])
  await sender.write(SECURED.ca, other.ca)
  await eventually('the endpoint is trusted', async () => {
    await sender.act()
    return second.spans.length > 0
  })
  assert.not.match(JSON.stringify(sender.lines), /"(one|two)"/)
  return { sender, receiver: second }
}

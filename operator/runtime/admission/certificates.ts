import { createPrivateKey, randomBytes, X509Certificate } from 'node:crypto'
import { type Issued, issue } from './issue.ts'

/** Milliseconds. */
export interface CertificateTimes {
  /** The lifetime of a certificate. The next one is made when a third of it is left. */
  readonly lifetime: number
  /** The time for which a new certificate is trusted but not served. */
  readonly settle: number
}

export interface Kept {
  /** The last part of the webhook's path. Only the API server is told of it. */
  readonly token: string
  readonly issued: readonly [Issued, ...Issued[]]
}

/** A certificate is valid a little before it is made, because clocks differ. */
const BACKDATED_MS = 60 * 60_000
/** A webhook's path consists of names in lower case. */
const TOKEN = /^[0-9a-f]{64}$/
const PREFIXES = ['', 'previous-'] as const

const madeAt = ({ certificate }: Issued) => new X509Certificate(certificate).validFromDate.getTime() + BACKDATED_MS
export const readEnd = ({ certificate }: Issued) => new X509Certificate(certificate).validToDate.getTime()

function isUsable({ ca, certificate, key }: Issued, host: string): boolean {
  try {
    const found = new X509Certificate(certificate)
    return (
      found.checkHost(host) !== undefined &&
      found.checkPrivateKey(createPrivateKey(key)) &&
      found.verify(new X509Certificate(ca).publicKey)
    )
  } catch {
    return false
  }
}

/** Returns what is usable of a Secret's data. Anything else, whoever has changed it, counts as absent. */
export function readKept(data: Readonly<Record<string, string>>, host: string) {
  const text = (name: string) => Buffer.from(String(data[name] ?? ''), 'base64').toString()
  const issued = PREFIXES.map((prefix) => ({
    ca: text(`${prefix}ca.crt`),
    certificate: text(`${prefix}tls.crt`),
    key: text(`${prefix}tls.key`),
  })).filter((one) => isUsable(one, host))
  const token = text('token')
  return { token: TOKEN.test(token) ? token : undefined, issued }
}

export const encodeData = ({ token, issued }: Kept): Record<string, string> =>
  Object.fromEntries(
    [
      ['token', token] as const,
      ...issued.flatMap(({ ca, certificate, key }, index) =>
        Object.entries({ 'ca.crt': ca, 'tls.crt': certificate, 'tls.key': key }).map(
          ([name, value]) => [`${PREFIXES[index]}${name}`, value] as const,
        ),
      ),
    ].map(([name, value]) => [name, Buffer.from(value).toString('base64')]),
  )

/** Returns what should be kept at this moment (milliseconds), and whether it differs from what is kept. */
export function renewed(
  { token, issued }: ReturnType<typeof readKept>,
  host: string,
  now: number,
  { lifetime }: CertificateTimes,
): { readonly kept: Kept; readonly isNew: boolean } {
  const [newest] = issued
  if (token !== undefined && newest && readEnd(newest) - now > lifetime / 3)
    return { kept: { token, issued: [newest, ...issued.slice(1)] }, isNew: false }
  const isYoung = newest !== undefined && readEnd(newest) - now > lifetime / 3
  const next = isYoung ? newest : issue(host, { from: new Date(now - BACKDATED_MS), until: new Date(now + lifetime) })
  const before = isYoung ? issued.slice(1) : issued.slice(0, 1)
  return { kept: { token: token ?? randomBytes(32).toString('hex'), issued: [next, ...before] }, isNew: true }
}

/** Returns the certificate to serve now: the newest that has been trusted long enough, or else the newest. */
export function served({ issued }: Kept, now: number, { settle }: CertificateTimes): Issued {
  const isSettled = (one: Issued) => now - madeAt(one) >= settle && readEnd(one) > now
  return issued.find(isSettled) ?? issued[0]
}

/** Returns all trusted authorities, one PEM after the other. */
export const trusted = ({ issued }: Kept): string => issued.map(({ ca }) => ca).join('')

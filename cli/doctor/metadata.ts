import { withoutUrlSecrets } from '../../dataplane/config/check/url.ts'
import { discoveryUrls } from '../../dataplane/identity/discovery.ts'
import { AddressRefused } from '../../dataplane/net/connect.ts'
import type { GuardedFetch } from '../../dataplane/net/guarded-fetch.ts'
import { error, type Finding, formatValue, ok, warning } from './finding.ts'
import type { Subject } from './subjects.ts'

export type Metadata = Readonly<Record<string, unknown>>

interface Found {
  readonly metadata: Metadata | undefined
  readonly findings: readonly Finding[]
}

/** The largest clock difference, in seconds, at which callers are still accepted. */
const SKEW_S = 30

/** Reads the provider's metadata from the URLs of its issuer, and checks that they are its own. */
export async function readMetadata(subject: Subject, fetch: GuardedFetch): Promise<Found> {
  const answers: string[] = []
  for (const url of discoveryUrls(subject.issuer)) {
    const answer = await fetch(url).catch((failure: unknown) => failure as Error)
    if (answer instanceof Error) return { metadata: undefined, findings: [reportUnreachable(url, answer, subject)] }
    const { status, headers, text } = answer
    if (status === 200) {
      const findings = [ok('metadata', `${url} answers`), ...checkClock(headers['date'])]
      const metadata = parseObject(text)
      if (metadata === undefined) return { metadata, findings: [...findings, describeNonObject(url)] }
      return { metadata, findings: [...findings, checkIssuer(metadata, subject)] }
    }
    const to = status >= 300 && status < 400 ? `, a redirect to ${formatValue(headers['location'])}` : ''
    answers.push(`${url} answers ${status}${withoutUrlSecrets(to)}`)
  }
  const fix = 'take the issuer from the provider’s own metadata; redirects are never followed'
  return { metadata: undefined, findings: [error('metadata', answers.join('; '), fix)] }
}

const describeNonObject = (url: string) =>
  error('metadata', `${url} answers with something other than a JSON object`, 'check that this is the issuer’s address')

export function parseObject(text: string): Metadata | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Metadata) : undefined
  } catch {
    return undefined
  }
}

function checkIssuer({ issuer }: Metadata, subject: Subject): Finding {
  if (issuer === subject.issuer) return ok('issuer', `the metadata name ${issuer}, as it is configured`)
  const fix = `write the issuer exactly as the provider does: ${formatValue(issuer)}`
  return error('issuer', `the metadata name ${formatValue(issuer)}, and ${subject.issuer} is configured`, fix)
}

/** Checks the provider's clock by its `Date` header, which has whole seconds. */
function checkClock(date: string | string[] | undefined): readonly Finding[] {
  const there = typeof date === 'string' ? Date.parse(date) : Number.NaN
  if (Number.isNaN(there)) return []
  const seconds = Math.round((there - Date.now()) / 1000)
  const amount = `${Math.abs(seconds)} s ${seconds < 0 ? 'behind' : 'ahead of'} this machine’s`
  if (Math.abs(seconds) <= 2) return [ok('clock', 'the provider’s clock agrees with this machine’s')]
  const fix = 'set both clocks by NTP; tokens are accepted up to 30 s before and after their time'
  if (Math.abs(seconds) <= SKEW_S) return [warning('clock', `the provider’s clock is ${amount}`, fix)]
  return [error('clock', `the provider’s clock is ${amount}`, fix)]
}

const REASONS: readonly (readonly [codes: RegExp, message: string, fix: string])[] = [
  [/^(ENOTFOUND|EAI_)/, 'its name is not found', 'check the name, and that this machine’s DNS knows it'],
  [/^ECONNREFUSED$/, 'nothing listens there', 'check the port, and that the provider runs'],
  [/TIMEOUT|ABORT|^23$/i, 'there is no answer within 5 s', 'check firewalls and proxies on the way'],
  [
    /CERT|SELF_SIGNED|ISSUER|ALTNAME|SSL|TLS/,
    'its certificate is not trusted',
    'name its CA with --ca-bundle, and in caBundleRef',
  ],
]

/** Reports why an address is unreachable; `check` tells metadata and keys apart. */
export function reportUnreachable(url: string, failure: Error, subject: Subject, check = 'metadata'): Finding {
  const refused = [failure, failure.cause].find((one) => one instanceof AddressRefused)
  if (refused !== undefined) {
    const fix =
      refused.addressClass === 'never' || subject.allowedBy === undefined
        ? 'such addresses are never called: use another one'
        : `set ${subject.allowedBy}: true if you trust it (here: --allow-private-ip)`
    return error(check, `${url} can’t be read: ${refused.message}`, fix)
  }
  const code = String((failure as NodeJS.ErrnoException).code ?? (failure.cause as NodeJS.ErrnoException)?.code ?? '')
  const known = REASONS.find(([codes]) => codes.test(code) || codes.test(failure.name))
  if (known !== undefined) return error(check, `${url} can’t be read: ${known[1]} (${code || failure.name})`, known[2])
  return error(
    check,
    `${url} can’t be read: ${formatValue(failure.message)}`,
    'check that this is the provider’s address',
  )
}

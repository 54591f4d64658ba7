import { issuerPolicies, type JwtBearerPolicy } from '../../../dataplane/config/authserver/inbound-grants.ts'
import type { WorkloadObservation } from '../../model/view.ts'
import type { Conditions } from '../outcome/plan.ts'
import type { AuthServerSpec } from './settings.ts'

/** Issuers that issue for many organizations. */
const SHARED_ISSUERS = [
  /^https:\/\/login\.microsoftonline\.com\/(common|organizations|consumers|9188040d-6c67-4c5b-b112-36a304b66dad)(\/|$)/,
  /^https:\/\/(accounts\.google\.com|token\.actions\.githubusercontent\.com|gitlab\.com|api\.anthropic\.com)$/,
]

/** Tells whether the policy admits callers by another rule than one for an exact subject. */
const admitsMany = ({ subjectRules = [] }: JwtBearerPolicy): boolean =>
  subjectRules.some(({ subject }) => subject === undefined || subject.endsWith('*'))

/**
 * Sets `TrustedIssuersReady`: the pods' reports of issuers' keys, and shared issuers whose people could get in. `seen`:
 * undefined until there are pods.
 */
export function reportTrustedIssuers(
  spec: AuthServerSpec | undefined,
  seen: Pick<WorkloadObservation, 'issuerKeys' | 'issuerNames' | 'reported'> | undefined,
  conditions: Conditions,
): void {
  if (!spec?.trustedIssuers?.length) return
  const shared = issuerPolicies(spec as Parameters<typeof issuerPolicies>[0])
    .filter(({ jwtBearer }) => jwtBearer !== undefined && jwtBearer.tenants === undefined && admitsMany(jwtBearer))
    .filter(({ issuer: { issuerUrl } }) => SHARED_ISSUERS.some((known) => known.test(issuerUrl)))
    .map(({ issuer: { issuerUrl } }) => `${issuerUrl} issues for many organizations: set tenants`)
  const found = (
    [
      ['IssuerNameMismatch', seen?.issuerNames],
      ['KeysUnreachable', seen?.issuerKeys],
      ['MultiTenantIssuer', shared],
    ] as const
  ).find(([, messages]) => messages !== undefined && messages.length > 0)
  const type = 'TrustedIssuersReady'
  if (found !== undefined) {
    conditions.set(type, 'False', found[0], (found[1] ?? []).join('; '))
    return
  }
  // The reports to the previous operator stay valid until pods have reported to this one.
  if (seen?.reported !== true) conditions.keep(type)
  const kept = conditions.get(type)
  if (kept === undefined || kept.reason === 'MultiTenantIssuer') conditions.set(type, 'True', 'IssuersReady', '')
}

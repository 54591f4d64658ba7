import type { Diagnosis } from './check-provider.ts'
import type { Finding } from './finding.ts'

const USES = {
  tokens: 'its tokens authenticate callers',
  login: 'users log in there',
  assertions: 'its tokens are exchanged here',
  keys: 'keys of clients',
} as const

/** Formats findings for people: one line each, and the fix below it. */
export function formatFindings(findings: readonly Finding[]): readonly string[] {
  const width = Math.max(...findings.map(({ check }) => check.length), 0)
  return findings.flatMap(({ severity, check, message, fix }) => [
    `  ${severity.padEnd(7)}  ${check.padEnd(width)}  ${message}`,
    ...(fix === undefined ? [] : [`  ${''.padEnd(7)}  ${''.padEnd(width)}  → ${fix}`]),
  ])
}

/** Formats a diagnosis: one line per finding, the fix below it, and the values to enter at the provider. */
export function reportText({ where, use, issuer, findings, register }: Diagnosis): string {
  const { redirectUri, scopes, audiences } = register
  const entries = [
    ...(redirectUri === undefined ? [] : [`    redirect URI  ${redirectUri}`]),
    ...(scopes.length === 0 ? [] : [`    scopes        ${scopes.join(' ')}`]),
    ...(audiences.length === 0 ? [] : [`    audience      ${audiences.join(' or ')}`]),
  ]
  return [
    `${where}: ${issuer} (${USES[use]})`,
    ...formatFindings(findings),
    ...(entries.length === 0 ? [] : ['  to register there:', ...entries]),
    '',
  ].join('\n')
}

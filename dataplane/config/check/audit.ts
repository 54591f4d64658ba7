import type { AuditSettings } from '../audit/audit.ts'
import { trustedNetworks } from '../audit/trusted-proxies.ts'
import type { Finding } from '../load.ts'

export function auditFindings(
  audit: AuditSettings | undefined,
  known: ReadonlySet<string>,
  at = '/audit',
): readonly Finding[] {
  if (audit === undefined) return []
  return [
    ...(['eventTypes', 'excludeEventTypes'] as const).flatMap((list) =>
      (audit[list] ?? []).flatMap((type, index) =>
        known.has(type)
          ? []
          : [
              {
                pointer: `${at}/${list}/${index}`,
                message: `there is no event ${JSON.stringify(type)}; the events are ${[...known].sort().join(', ')}`,
              },
            ],
      ),
    ),
    ...(audit.trustedProxies ?? []).flatMap((text, index) => proxyFindings(text, `${at}/trustedProxies/${index}`)),
  ]
}

function proxyFindings(text: string, pointer: string): readonly Finding[] {
  try {
    trustedNetworks([text])
    return []
  } catch (error) {
    return [{ pointer, message: (error as TypeError).message }]
  }
}

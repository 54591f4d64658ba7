import type { Conditions } from '../outcome/conditions.ts'

interface SessionSettings {
  readonly replicas?: number | undefined
  readonly sessionStorage?: { readonly provider: 'memory' | 'redis' } | undefined
  readonly sessionAffinity: 'ClientIP' | 'None'
}

/** Several pods with sessions in memory each know their own only: fine for clients that stay with one pod, not for others. */
export function warnOfSessions(settings: SessionSettings, conditions: Conditions): void {
  const { replicas = 1, sessionStorage, sessionAffinity } = settings
  if (replicas <= 1 || sessionStorage?.provider === 'redis') return
  const affinity =
    sessionAffinity === 'ClientIP'
      ? 'the Service keeps each client address on one pod'
      : 'sessionAffinity is None, so that sessions will be lost'
  const message = `${replicas} replicas keep their sessions in memory, each its own; ${affinity}`
  conditions.set('SessionStorageWarning', 'True', 'MemorySessions', message)
}

import type { Conditions } from '../outcome/conditions.ts'

interface ProxyHeaderSettings {
  readonly trustProxyHeaders: boolean
  readonly allowedHosts?: readonly string[]
  readonly oidcConfigRef?: { readonly resourceUrl?: string | undefined }
}

/** Warns if trusting X-Forwarded-Host has no effect: only hosts in `allowedHosts` are believed, and it is empty. */
export function warnOfProxyHeaders(spec: ProxyHeaderSettings, conditions: Conditions): void {
  const { trustProxyHeaders, allowedHosts = [], oidcConfigRef } = spec
  if (!trustProxyHeaders || oidcConfigRef?.resourceUrl !== undefined) return
  if (allowedHosts.length > 0 && !allowedHosts.includes('*')) return
  const message =
    '/spec/trustProxyHeaders: X-Forwarded-Host is trusted only for hosts in /spec/allowedHosts, which is empty'
  conditions.set('ProxyHeadersWarning', 'True', 'NoPublicHost', message)
}

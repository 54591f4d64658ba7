import { type MCPExternalAuthConfig, mcpExternalAuthConfig } from '../../../crds/index.ts'
import type { BackendConfig } from '../../../dataplane/config/gateway.ts'
import type { Mounts } from '../../render/pod/mounts.ts'
import { checkExternalAuthConfig } from '../configs/mcp-external-auth-config.ts'
import { referencedConfig } from '../configs/referenced-config.ts'
import type { Resolver } from '../references/resolver.ts'

/** Names an MCPExternalAuthConfig, where any is to be used. */
export type CredentialReference = { readonly name: string } | undefined

/** How a data plane gets the credential for one backend, as an MCPExternalAuthConfig describes it. */
export interface OutgoingCredential {
  /** Name of the MCPExternalAuthConfig. */
  readonly config: string
  readonly type: MCPExternalAuthConfig['spec']['type']
  /** What the backend's configuration gets of it; nothing where none is sent. */
  readonly settings: Pick<BackendConfig, 'headerFiles'>
}

const find = (ref: CredentialReference, resolver: Resolver): MCPExternalAuthConfig | undefined =>
  ref && referencedConfig({ kind: mcpExternalAuthConfig, check: checkExternalAuthConfig }, ref.name, resolver)

/** Notes why the credential that an MCPExternalAuthConfig describes can't be had. */
export function checkCredential(ref: CredentialReference, resolver: Resolver): void {
  find(ref, resolver)
}

/**
 * The credential that an MCPExternalAuthConfig describes, its Secrets mounted as files. Undefined where none is named,
 * and where it can't be had: the reason is noted then, and nothing may be served as if there were none.
 */
export function outgoingCredential(
  ref: CredentialReference,
  resolver: Resolver,
  mounts: Mounts,
): OutgoingCredential | undefined {
  const found = find(ref, resolver)
  if (found === undefined) return undefined
  const { type } = found.spec
  return { config: found.metadata.name, type, settings: settingsOf(found.spec, mounts) }
}

function settingsOf(
  { type, headerInjection, bearerToken }: MCPExternalAuthConfig['spec'],
  mounts: Mounts,
): OutgoingCredential['settings'] {
  if (type === 'headerInjection' && headerInjection) {
    const { name, key } = headerInjection.valueSecretRef
    return { headerFiles: [{ name: headerInjection.headerName, file: mounts.secretFile(name, key) }] }
  }
  if (type === 'bearerToken' && bearerToken) {
    const { name, key } = bearerToken.tokenSecretRef
    return { headerFiles: [{ name: 'Authorization', file: mounts.secretFile(name, key), prefix: 'Bearer ' }] }
  }
  return {}
}

/** A backend with its credential, which replaces configured headers of the same names. */
export function withCredential<B extends Omit<BackendConfig, 'name'>>(
  backend: B,
  credential: OutgoingCredential | undefined,
): B {
  const { headerFiles: own = [] } = credential?.settings ?? {}
  if (own.length === 0) return backend
  const replaced = new Set(own.map(({ name }) => name.toLowerCase()))
  const { headers, headerFiles = [], ...others } = backend
  const kept = Object.entries(headers ?? {}).filter(([name]) => !replaced.has(name.toLowerCase()))
  return {
    ...others,
    ...(kept.length === 0 ? {} : { headers: Object.fromEntries(kept) }),
    headerFiles: [...headerFiles.filter(({ name }) => !replaced.has(name.toLowerCase())), ...own],
  } as unknown as B
}

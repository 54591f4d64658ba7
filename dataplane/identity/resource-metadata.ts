import { advertisedScopes } from './scopes.ts'

/** The content of `/.well-known/oauth-protected-resource` (RFC 9728 section 2). */
export interface ProtectedResourceMetadata {
  readonly resource: string
  readonly authorization_servers: readonly string[]
  readonly bearer_methods_supported: readonly ['header']
  readonly scopes_supported?: readonly string[]
  readonly dpop_bound_access_tokens_required?: boolean
  readonly dpop_signing_alg_values_supported?: readonly string[]
}

interface Resource {
  readonly resource: string
  readonly issuers: readonly string[]
  readonly scopes?: readonly string[] | undefined
  readonly proofs?: { readonly isRequired: boolean; readonly algs: readonly string[] } | undefined
}

const WELL_KNOWN = '/.well-known/oauth-protected-resource'

export function protectedResourceMetadata({ resource, issuers, scopes, proofs }: Resource): ProtectedResourceMetadata {
  const advertised = advertisedScopes(scopes)
  return {
    resource,
    authorization_servers: issuers,
    bearer_methods_supported: ['header'],
    ...(advertised.length === 0 ? {} : { scopes_supported: advertised }),
    ...(proofs && {
      dpop_bound_access_tokens_required: proofs.isRequired,
      dpop_signing_alg_values_supported: proofs.algs,
    }),
  }
}

/** Returns the URL of a resource's metadata: the well-known path goes between host and path (RFC 9728 section 3.1). */
export function resourceMetadataUrl(resource: string): string {
  const url = new URL(resource)
  return `${url.origin}${WELL_KNOWN}${url.pathname === '/' ? '' : url.pathname}${url.search}`
}

/** Returns the paths of a resource's metadata: the bare well-known one and the one with the resource's own path. */
export function resourceMetadataPaths(resource: string): readonly string[] {
  const { pathname } = new URL(resource)
  return pathname === '/' ? [WELL_KNOWN] : [WELL_KNOWN, `${WELL_KNOWN}${pathname}`]
}

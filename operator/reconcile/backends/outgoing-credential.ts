import { mcpExternalAuthConfig } from '../../../crds/index.ts'
import { checkExternalAuthConfig } from '../configs/mcp-external-auth-config.ts'
import { referencedConfig } from '../configs/referenced-config.ts'
import type { Resolver } from '../references/resolver.ts'

/**
 * Notes why the credential that an MCPExternalAuthConfig describes can't be had. None is to be had so far but the one
 * of type `unauthenticated`, which is to send none.
 */
export function checkCredential(ref: { readonly name: string } | undefined, resolver: Resolver): void {
  if (ref !== undefined)
    referencedConfig({ kind: mcpExternalAuthConfig, check: checkExternalAuthConfig }, ref.name, resolver)
}

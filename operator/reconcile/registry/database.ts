import type { MCPRegistry } from '../../../crds/index.ts'
import type { DatabaseConfig } from '../../../dataplane/config/registry/database.ts'
import type { Mounts } from '../../render/pod/mounts.ts'
import type { Resolver } from '../references/resolver.ts'

/** The `database` block of the configuration file: what is secret comes as a file. */
export function databaseOf(
  { urlSecretRef, passwordSecretRef, ...parts }: NonNullable<MCPRegistry['spec']['database']>,
  resolver: Resolver,
  mounts: Mounts,
): DatabaseConfig {
  const file = (ref: NonNullable<typeof urlSecretRef>) => {
    resolver.secretKey(ref)
    return mounts.secretFile(ref.name, ref.key)
  }
  const { host, port, user, database, sslMode } = parts
  // The schema gives `port` a default, which says nothing beside a URL.
  if (urlSecretRef !== undefined) return { urlFile: file(urlSecretRef), ...(sslMode && { sslMode }) }
  return {
    ...(host !== undefined && { host }),
    port,
    ...(user !== undefined && { user }),
    ...(passwordSecretRef && { passwordFile: file(passwordSecretRef) }),
    ...(database !== undefined && { database }),
    ...(sslMode && { sslMode }),
  }
}

import { mcpExternalAuthConfig } from '../../crds/index.ts'
import { type CheckConfig, planConfig } from './config.ts'
import { checkSecrets } from './secret-references.ts'
import { checkNotRefused } from './supported.ts'

const checkExternalAuthConfig: CheckConfig<typeof mcpExternalAuthConfig> = (object, resolver) => {
  const { type } = object.spec
  checkNotRefused(mcpExternalAuthConfig, object, resolver.problems)
  if (type !== 'unauthenticated' && object.spec[type] === undefined)
    resolver.problems.add('Valid', 'ConfigInvalid', `/spec/${type} must be set`)
  checkSecrets(mcpExternalAuthConfig, object, resolver)
}

export const reconcileMcpExternalAuthConfig = planConfig(mcpExternalAuthConfig, checkExternalAuthConfig)

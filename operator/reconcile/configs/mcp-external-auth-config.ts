import { mcpExternalAuthConfig } from '../../../crds/index.ts'
import { checkNotRefused } from '../outcome/supported.ts'
import { checkSecrets } from '../references/secret-references.ts'
import { type CheckConfig, planConfig } from './config.ts'

export const checkExternalAuthConfig: CheckConfig<typeof mcpExternalAuthConfig> = (object, resolver) => {
  const { type } = object.spec
  checkNotRefused(mcpExternalAuthConfig, object, resolver.problems)
  if (type !== 'unauthenticated' && object.spec[type] === undefined)
    resolver.problems.add('Valid', 'ConfigInvalid', { pointer: `/spec/${type}`, joint: ' ', message: 'must be set' })
  checkSecrets(mcpExternalAuthConfig, object, resolver)
}

export const reconcileMcpExternalAuthConfig = planConfig(mcpExternalAuthConfig, checkExternalAuthConfig)

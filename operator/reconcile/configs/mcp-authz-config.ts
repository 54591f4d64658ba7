import { mcpAuthzConfig } from '../../../crds/index.ts'
import { checkNotRefused } from '../outcome/supported.ts'
import { type CheckConfig, planConfig } from './config.ts'

const checkAuthzConfig: CheckConfig<typeof mcpAuthzConfig> = (object, { problems }) => {
  checkNotRefused(mcpAuthzConfig, object, problems)
  const { policies } = object.spec.config
  if (object.spec.type !== 'cedarv1') return
  if (!Array.isArray(policies) || policies.length === 0 || policies.some((policy) => typeof policy !== 'string'))
    problems.add('Valid', 'ConfigInvalid', {
      pointer: '/spec/config/policies',
      joint: ' ',
      message: 'must be a list of at least one policy',
    })
}

export const reconcileMcpAuthzConfig = planConfig(mcpAuthzConfig, checkAuthzConfig)

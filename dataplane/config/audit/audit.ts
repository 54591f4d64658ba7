import { audit, gatewayAudit } from '../../../crds/settings/audit.ts'
import { asFile, extend } from '../../../crds/settings/file-form.ts'
import type { Static } from '../../../crds/settings/schema.ts'

export const gatewayAuditSchema = asFile(gatewayAudit('gateway'))

const { component } = gatewayAuditSchema.properties

export const auditSchema = extend(asFile(audit('registry')), { component })

export type AuditSettings = Static<typeof gatewayAuditSchema>

import { audit, gatewayAudit } from '../../../crds/settings/audit.ts'
import { asFile, extended } from '../../../crds/settings/file-form.ts'
import type { Static } from '../../../crds/settings/schema.ts'

export const gatewayAuditSchema = asFile(gatewayAudit('gateway'))

const { component } = gatewayAuditSchema.properties

export const auditSchema = extended(asFile(audit('registry')), { component })

export type AuditSettings = Static<typeof gatewayAuditSchema>

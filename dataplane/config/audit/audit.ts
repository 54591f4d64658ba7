import { audit, gatewayAudit } from '../../../crds/shared/audit.ts'
import { asFile, extended } from '../../../crds/shared/file-form.ts'
import type { Static } from '../../../crds/shared/schema.ts'

/** The block `audit` of a gateway and a proxy. */
export const gatewayAuditSchema = asFile(gatewayAudit('gateway'))

const { component } = gatewayAuditSchema.properties

/** The block `audit` of a registry. */
export const auditSchema = extended(asFile(audit('registry')), { component })

export type AuditSettings = Static<typeof gatewayAuditSchema>

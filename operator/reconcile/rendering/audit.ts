import type { AuditSettings } from '../../../dataplane/config/audit/audit.ts'
import { sortedKeys } from '../../render/object/canonical.ts'

/** The block `audit` of a workload that has one. */
export type AuditSpec = { readonly [Key in keyof AuditSettings]: Readonly<AuditSettings[Key]> }

/** The block `audit` of its data plane; nothing where no audit log is written. */
export const auditOf = (audit: AuditSpec | undefined): { readonly audit?: AuditSettings } =>
  audit?.enabled === true ? { audit: sortedKeys(audit) as AuditSettings } : {}

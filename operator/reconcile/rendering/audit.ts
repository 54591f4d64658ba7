import type { AuditSettings } from '../../../dataplane/config/audit/audit.ts'
import { sortedKeys } from '../../render/object/canonical.ts'

/** The block `audit` of a workload that has one. */
export type AuditSpec = { readonly [Key in keyof AuditSettings]: Readonly<AuditSettings[Key]> }

/** Builds the block `audit` of its data plane; empty if no audit log is written. */
export const buildAudit = (audit: AuditSpec | undefined): { readonly audit?: AuditSettings } =>
  audit?.enabled === true ? { audit: sortedKeys(audit) as AuditSettings } : {}

/** Defaults that schemas name and code compares with. Without a schema: every gateway loads them. */

/** The longest wait for an embedding service. */
export const SERVICE_TIMEOUT = '30s'
/** The prefix of tool names under the conflict resolution `prefix`. */
export const TOOL_PREFIX = '{workload}_'
/** Bytes of a body that an audit log has. */
export const AUDIT_DATA_BYTES = 1024
/** Links of a delegation chain that an audit log has. */
export const AUDIT_DELEGATION_DEPTH = 10
/** The claim that chooses a role of AWS. */
export const ROLE_CLAIM = 'groups'

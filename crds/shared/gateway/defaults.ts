/** Defaults that schemas name and code compares with. Without a schema: every gateway loads them. */

/** The longest wait for an embedding service. */
export const SERVICE_TIMEOUT = '30s'
/** The prefix of tool names under the conflict resolution `prefix`. */
export const TOOL_PREFIX = '{workload}_'
/** The claim that chooses a role of AWS. */
export const ROLE_CLAIM = 'groups'

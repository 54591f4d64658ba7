/** Loaded before uvu, which then runs no test until several.ts says so. */
;(globalThis as { UVU_DEFER?: boolean }).UVU_DEFER = true

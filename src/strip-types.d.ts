export declare function stripTypes(source: string): string

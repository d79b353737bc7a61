export const runOverload = async (_o: object): Promise<object> => ({})

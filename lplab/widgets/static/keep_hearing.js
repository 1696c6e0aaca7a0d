/**
 * Lets a model hear Python, however long it took to begin: anywidget gives up after two seconds, as on a busy machine,
 * and passes nothing on from then. The model listens by itself, and asks for what it has missed.
 */
function keepHearing(model) {
  const listen = (instance) => {
    const { _handle_comm_msg: hear } = Object.getPrototypeOf(Object.getPrototypeOf(instance)); // the class below anywidget's
    if (!hear || !instance.comm) return;
    instance.comm.on_msg(hear.bind(instance));
    instance.comm.send({ method: "request_state" }, instance.callbacks());
  };
  model.on("change:lp_listens", listen); // the model itself comes with its events alone
  model.set("lp_listens", true);
  model.off("change:lp_listens", listen);
}

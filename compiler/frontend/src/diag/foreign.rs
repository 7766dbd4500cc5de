//! Names and words of other frameworks and languages, and what they are called here.

/// Names in lower case and without underscores, each with what it is called here: the first that exists where it is looked up.
const NAMES: &[(&str, &[&str])] = &[
    // Optimizers.
    ("sgd", &["gradient_descent"]),
    ("amsgrad", &["adam"]),
    ("adamwithdecay", &["adamw"]),
    ("nag", &["momentum"]),
    // Their arguments.
    ("lr", &["learning_rate"]),
    ("stepsize", &["learning_rate"]),
    ("eps", &["epsilon"]),
    ("betas", &["beta1"]),
    ("beta", &["beta1", "momentum"]),
    ("nesterov", &["use_nesterov"]),
    ("rho", &["decay"]),
    ("l1", &["l1_regularization_strength"]),
    ("l2", &["l2_regularization_strength"]),
    // Schedules and clipping.
    ("cosine", &["cosine_decay"]),
    ("cosineannealing", &["cosine_decay"]),
    ("cosineannealinglr", &["cosine_decay"]),
    ("exponential", &["exponential_decay"]),
    ("exponentiallr", &["exponential_decay"]),
    ("steplr", &["piecewise_constant"]),
    ("multisteplr", &["piecewise_constant"]),
    ("linear", &["dense", "polynomial_decay"]),
    ("linearwarmup", &["warmup"]),
    ("clipbyglobalnorm", &["global_norm"]),
    ("clipgradnorm", &["global_norm"]),
    ("clipbynorm", &["norm"]),
    ("clipbyaveragenorm", &["average_norm"]),
    ("clipbyvalue", &["value"]),
    ("clipvalue", &["value"]),
    // Layers and their arguments.
    ("fc", &["dense"]),
    ("fullyconnected", &["dense"]),
    ("batchnorm1d", &["batch_norm"]),
    ("batchnorm2d", &["batch_norm"]),
    ("batchnormalization", &["batch_norm"]),
    ("layernormalization", &["layer_norm"]),
    ("maxpool2d", &["max_pool"]),
    ("maxpooling2d", &["max_pool"]),
    ("avgpool2d", &["avg_pool"]),
    ("averagepooling2d", &["avg_pool"]),
    ("globalaveragepooling2d", &["global_avg_pool"]),
    ("multiheadattention", &["attention"]),
    ("p", &["rate"]),
    ("dropoutrate", &["rate"]),
    ("keepprob", &["rate"]),
    ("bias", &["use_bias"]),
    ("kernelsize", &["size"]),
    ("ksize", &["size"]),
    ("outfeatures", &["units"]),
    ("outchannels", &["filters"]),
    ("strides", &["stride"]),
    ("dilations", &["dilation"]),
    ("kernelinitializer", &["kernel_init"]),
    ("biasinitializer", &["bias_init"]),
    ("numembeddings", &["vocabulary"]),
    // Losses and metrics.
    ("crossentropy", &["sparse_softmax_cross_entropy"]),
    (
        "sparsecategoricalcrossentropy",
        &["sparse_softmax_cross_entropy"],
    ),
    ("categoricalcrossentropy", &["softmax_cross_entropy"]),
    ("binarycrossentropy", &["sigmoid_cross_entropy"]),
    ("bce", &["sigmoid_cross_entropy"]),
    ("bcewithlogits", &["sigmoid_cross_entropy"]),
    ("nll", &["sparse_softmax_cross_entropy"]),
    ("mse", &["mean_squared_error"]),
    ("mae", &["mean_absolute_error"]),
    ("l1loss", &["mean_absolute_error"]),
    ("kldiv", &["kl_divergence"]),
    ("ytrue", &["labels"]),
    ("ypred", &["predictions", "logits"]),
    ("target", &["labels"]),
    ("targets", &["labels"]),
    ("labels", &["onehot_labels"]),
    // Operations and their arguments.
    ("dim", &["axis"]),
    ("keepdim", &["keepdims"]),
    ("cat", &["concat"]),
    ("concatenate", &["concat"]),
    ("view", &["reshape"]),
    ("permute", &["transpose"]),
    ("unsqueeze", &["expand_dims"]),
    ("to", &["cast"]),
    ("astype", &["cast"]),
    ("clamp", &["clip_by_value"]),
    ("clip", &["clip_by_value"]),
    ("bmm", &["matmul"]),
    ("mm", &["matmul"]),
    ("dot", &["matmul"]),
    ("arange", &["range"]),
    ("randn", &["random_normal"]),
    ("rand", &["random_uniform"]),
    ("full", &["fill"]),
    ("detach", &["stop_gradient"]),
    ("swish", &["silu"]),
    ("std", &["reduce_std"]),
    ("var", &["reduce_variance"]),
    ("logsumexp", &["reduce_logsumexp"]),
    ("xavieruniform", &["glorot_uniform"]),
    ("xaviernormal", &["glorot_normal"]),
    ("kaiminguniform", &["he_uniform"]),
    ("kaimingnormal", &["he_normal"]),
    // Types.
    ("float", &["f32"]),
    ("float16", &["f16"]),
    ("float32", &["f32"]),
    ("float64", &["f64"]),
    ("bfloat16", &["bf16"]),
    ("half", &["f16"]),
    ("double", &["f64"]),
    ("int", &["i32"]),
    ("int8", &["i8"]),
    ("int16", &["i16"]),
    ("int32", &["i32"]),
    ("int64", &["i64"]),
    ("long", &["i64"]),
    ("uint8", &["u8"]),
    ("byte", &["u8"]),
    ("boolean", &["bool"]),
    ("str", &["string"]),
    // Settings and hooks.
    ("batchsize", &["batch", "size"]),
    ("buffersize", &["buffer"]),
    ("sep", &["delimiter"]),
    ("fielddelim", &["delimiter"]),
    ("navalues", &["missing"]),
    ("navalue", &["missing"]),
    ("normalize", &["standardize"]),
    ("standardscaler", &["standardize"]),
    ("maxsteps", &["steps"]),
    ("numsteps", &["steps"]),
    ("iterations", &["steps"]),
    ("maxepochs", &["epochs"]),
    ("numepochs", &["epochs"]),
    ("movingaverage", &["ema"]),
    ("gradientclipping", &["clip"]),
    ("clipping", &["clip"]),
    ("gradientaccumulation", &["accumulate"]),
    ("dataset", &["data"]),
    ("checkpointsaver", &["checkpoint"]),
    ("modelcheckpoint", &["checkpoint"]),
    ("save", &["checkpoint"]),
    ("saver", &["checkpoint"]),
    ("tensorboard", &["summary"]),
    ("summarysaver", &["summary"]),
    ("print", &["log"]),
    ("logging", &["log"]),
    ("loggingtensor", &["log"]),
    ("nantensor", &["nan"]),
    ("stepcounter", &["step_counter"]),
    ("stopatstep", &["stop_at"]),
    ("earlystopping", &["early_stop"]),
    ("profiler", &["profile"]),
    // Units.
    ("sec", &["s"]),
    ("second", &["s"]),
    ("seconds", &["s"]),
    ("millisecond", &["ms"]),
    ("milliseconds", &["ms"]),
    ("minute", &["min"]),
    ("minutes", &["min"]),
    ("mins", &["min"]),
    ("hour", &["h"]),
    ("hours", &["h"]),
    ("day", &["d"]),
    ("days", &["d"]),
    ("iteration", &["step"]),
    ("batches", &["steps"]),
];

/// Endings that names of classes have and ours have not.
const ENDINGS: [&str; 6] = ["optimizer", "layer", "loss", "hook", "schedule", "decay"];

/// What a name of another framework is called here, where that is one of the candidates.
pub(super) fn own_name<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let word = plain(word);
    let named = |word: &str| {
        let (_, own) = NAMES.iter().find(|(foreign, _)| *foreign == word)?;
        own.iter()
            .find_map(|own| candidates.iter().find(|c| *c == own).copied())
    };
    named(&word).or_else(|| {
        let stem = ENDINGS
            .iter()
            .find_map(|ending| word.strip_suffix(ending))?;
        let same = candidates.iter().find(|c| plain(c) == stem);
        same.copied().or_else(|| named(stem))
    })
}

/// A name without what frameworks write differently.
pub(super) fn plain(word: &str) -> String {
    word.chars()
        .filter(|c| *c != '_')
        .flat_map(char::to_lowercase)
        .collect()
}

/// What is written here in place of a word of another language, where it is one.
pub(crate) fn word(word: &str) -> Option<&'static str> {
    Some(match word {
        "and" => "write `&&`",
        "or" => "write `||`",
        "not" => "the negation of a bool is written `!a`",
        "True" => "write `true`",
        "False" => "write `false`",
        "None" | "null" | "nil" | "nullptr" => "write `none`",
        "elif" => "write `else if`",
        "def" | "function" | "func" | "lambda" => "a function is written `fn name(x) = value;`",
        "class" | "struct" => "a part of a model with variables is a `block`",
        "import" | "include" | "from" => "other files come in with `use \"file.trainspec\";`",
        "while" => {
            "loops are `for i in 0..n, value = start { ... }` and `scan x in xs, value = start { ... }`"
        }
        "return" => "the last expression of a block, without `;`, is its value",
        "var" | "mut" => "values are bound with `let`; what changes is `state`",
        "print" => "a hook prints: `hooks { log (name, every: 100 steps); }`",
        "tf" | "torch" | "np" | "jnp" | "jax" | "keras" | "numpy" | "F" => {
            "operations have no prefix: `relu(x)`"
        }
        "Sequential" | "sequential" => {
            "layers are applied in order with `|>`: `x |> dense(16) |> dense(3)`"
        }
        "same" | "SAME" => "it is a string: `padding: \"same\"`",
        "valid" | "VALID" => "it is a string: `padding: \"valid\"`",
        "AUTOTUNE" => "give a number of batches: `prefetch 2;`",
        "epoch" | "step" => "put a number before the unit, as in `1 epoch` or `100 steps`",
        _ => return None,
    })
}

/// What takes the place of an argument that an optimizer of this name has elsewhere.
pub(crate) fn argument(callee: &str, name: &str) -> Option<&'static str> {
    Some(match (callee, name) {
        ("adam", "weight_decay" | "decay") => {
            "`adamw` decays weights: `adamw(learning_rate: 1e-3, weight_decay: 0.01)`"
        }
        ("gradient_descent" | "momentum", "weight_decay" | "decay") => {
            "`sgdw` decays weights: `sgdw(learning_rate: 0.1, momentum: 0.9, weight_decay: 1e-4)`"
        }
        ("gradient_descent", "momentum" | "nesterov" | "use_nesterov") => {
            "`momentum` has it: `momentum(learning_rate: 0.1, momentum: 0.9)`"
        }
        _ => return None,
    })
}

/// Where a setting belongs that another section has.
pub(crate) fn setting(section: &str, word: &str) -> Option<&'static str> {
    Some(match (section, word) {
        ("train", "batch" | "batch_size" | "shuffle" | "prefetch" | "repeat") => {
            "the data set says it: `data NAME { ... batch 32; }`"
        }
        ("data", "sample_from_datasets" | "choose_from_datasets") => {
            "the source says it: `source mix(english: 0.7, german: 0.3);`"
        }
        ("data", "bucket_by_sequence_length") => {
            "write `bucket_by_length (words, boundaries: [10, 20], size: 32);`"
        }
        ("data", "padded_batch") => "write `batch (size: 32, pad: true);`",
        ("train", "loss" | "metric" | "metrics") => {
            "the model says it: `loss value;`, `metric name = value;`"
        }
        ("train", "lr" | "learning_rate") => {
            "the optimizer takes it: `optimizer adam(learning_rate: 1e-3);`"
        }
        ("train", "device" | "gpu" | "cpu") => {
            "there is one device, the processor; `run --threads N` says how many threads"
        }
        ("data", "normalize" | "preprocess" | "transform") => {
            "features are computed by `map`: `map x = x / 255.0;`"
        }
        _ => return None,
    })
}
